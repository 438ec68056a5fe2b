"""Calibrate: measure the devices at hand, and write what they achieve as an overlay of their catalogue entry."""
