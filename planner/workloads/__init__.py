"""Workloads: one module for each kind, and the registry that every other module asks."""
