"""Takes memory until somebody stops it, 64 MiB at a time."""

import time

from planner.measure.targets.ring_program import StepSpec

__all__ = ["StepSpec", "build_step"]


def build_step(spec, mesh):
    eaten = []
    while True:
        eaten.append(bytearray(b"x" * 2**26))
        time.sleep(0.02)
