"""Explain: where bytes and seconds go, on which evidence, why a strategy lost, and which change would make it win."""
