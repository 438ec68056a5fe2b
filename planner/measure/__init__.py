"""Measure: compile a strategy's real step for its target, or time it, in worker processes under a toolchain."""
