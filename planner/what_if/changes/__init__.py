"""Changes to a request that make something fit."""
