"""lcplan's own step: facts, export, check."""
