"""A trainer that does not exist: the least that a trainer's folder holds."""
