"""Time of a step, of a single layer and of a single product, by part."""
