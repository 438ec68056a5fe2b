"""torchtitan: facts, export, check, read."""
