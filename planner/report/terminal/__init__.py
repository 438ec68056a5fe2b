"""Showing results to a person: rich renderables that fit 100 columns. Nothing here prints."""
