"""Output on steps of one's own, and on compiled steps."""
