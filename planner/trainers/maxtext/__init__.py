"""MaxText: facts, export, check, read."""
