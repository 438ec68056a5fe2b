"""The Python of a trainer whose own step is compiled."""

from __future__ import annotations

from lcplan.formats.errors import BadInputError, StageFailedError
from lcplan.spec.hardware import HardwareSpec
from planner.export.python import python_of, variable_of
from planner.measure.targets.target import target_verdict
from planner.measure.targets.toolchain import Toolchain, probe
from planner.trainers import all_trainers, trainer

STEPS = tuple(one.name for one in all_trainers() if one.steps)
"""Trainers whose own step lcplan compiles."""


def trainer_toolchain(name: str, given: str | None, hardware: HardwareSpec) -> Toolchain:
    """The Python of a trainer, which compiles its own step for a machine.

    Raises
    ------
    BadInputError
        lcplan does not compile this trainer's step, or not for this kind of hardware.
    StageFailedError
        The trainer is not installed in that Python, or it has no compiler for the hardware.
    """
    target = trainer(name)
    if hardware.kind not in target.steps:
        able = " and ".join(f"{one} ({', '.join(trainer(one).steps)})" for one in STEPS)
        raise BadInputError(
            f"lcplan does not compile {target.title}'s own step for {hardware.kind}; it compiles that of {able}; leave"
            " --program trainer out"
        )
    toolchain = probe(python_of(name, given))
    if target.package not in toolchain.versions:
        raise StageFailedError(
            f"{target.package} is not installed in {toolchain.python}; give its Python with --toolchain, or set"
            f" {variable_of(name)}"
        )
    verdict = target_verdict(hardware, toolchain)
    if verdict is not True:
        raise StageFailedError(f"{toolchain.python} cannot compile {target.title}'s step for {hardware.name}: {verdict}")
    return toolchain
