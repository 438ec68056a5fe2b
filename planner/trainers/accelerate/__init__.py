"""Accelerate: facts, export, check, read."""
