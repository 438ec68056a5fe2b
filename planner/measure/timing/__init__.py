"""Timing inside a worker: whole steps, slices of a step, probes of a device."""
