"""How far a prediction may be off, from the errors of published rows of the same kind."""
