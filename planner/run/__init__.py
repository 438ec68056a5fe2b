"""Search: from a request to the best candidate, stage by stage."""
