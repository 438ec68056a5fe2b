"""Published tables: their format, names and facts."""
