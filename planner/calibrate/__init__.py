"""Calibrate: measure the devices at hand, and write the achieved rates as an overlay of their catalogue entry."""
