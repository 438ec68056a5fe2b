"""Shared parts of the trainers: interface, rules, translation, file formats."""
