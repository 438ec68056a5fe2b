"""Raises, as a step does that cannot run a strategy."""

from lcplan.formats.errors import BadInputError
from planner.measure.targets.ring_program import StepSpec

__all__ = ["StepSpec", "build_step"]


def build_step(spec, mesh):
    raise BadInputError("tensor=2 does not divide heads=3; choose a tensor size that divides it")
