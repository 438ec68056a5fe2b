"""Measurements, and the plan that records them."""
