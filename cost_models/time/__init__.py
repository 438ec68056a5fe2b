"""Time of a step, and of single layers and products, by part."""
