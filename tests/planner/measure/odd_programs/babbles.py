"""Prints on stdout, from Python and from below it, then compiles as the ring program does."""

import os

from planner.measure.targets import ring_program
from planner.measure.targets.ring_program import StepSpec

__all__ = ["StepSpec", "build_step"]


def build_step(spec, mesh):
    print('{"id": "a lie", "result": {}}')
    os.write(1, b"garbage \xff\xfe\n")
    return ring_program.build_step(spec, mesh)
