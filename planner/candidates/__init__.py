"""Candidates: strategies with their estimates and evidence, and how they are priced."""
