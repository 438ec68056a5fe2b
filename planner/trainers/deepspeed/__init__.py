"""DeepSpeed: facts, export, check, read."""
