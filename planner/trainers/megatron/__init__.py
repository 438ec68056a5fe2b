"""Megatron-LM: facts, export, check, read."""
