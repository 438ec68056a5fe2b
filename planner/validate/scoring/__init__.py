"""How predictions compare with measurements: errors, ranks, verdicts."""
