"""Levanter: facts, export, check."""
