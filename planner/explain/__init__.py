"""Explain: where bytes and seconds go, what rests on what, why a strategy lost, and what would make it win."""
