"""``--program trainer``: the option, the options that it excludes, and the Python that compiles."""

from __future__ import annotations

from typing import Protocol

import click

from lcplan.formats.errors import BadInputError
from planner.export.python import python_of
from planner.measure.targets.toolchain import Toolchain, probe
from planner.request.request import SearchRequest, Stage

TRAINER = "trainer"
"""The value of ``--program`` for the trainer's own step."""
program_option = click.option(
    "--program",
    type=click.Choice(("lcplan", TRAINER)),
    help="The step to compile: lcplan's own, or that of the trainer under its own Python.",
)


class Asked(Protocol):
    """The options of a search that decide the compiled program."""

    @property
    def program(self) -> str | None:
        """The value of ``--program``."""

    @property
    def trainer(self) -> str | None:
        """The trainer that the search is for."""

    @property
    def toolchain(self) -> str | None:
        """The Python on the command line."""

    @property
    def stages(self) -> Stage | None:
        """How far to go."""

    @property
    def engine(self) -> str:
        """The engine of the compiles."""

    @property
    def tune(self) -> str | None:
        """The tuner's budget."""


def python_for(asked: Asked) -> str | None:
    """The Python whose jax counts: with ``--program trainer`` that of the trainer."""
    if asked.program != TRAINER or asked.trainer is None:
        return asked.toolchain
    return python_of(asked.trainer, asked.toolchain)


def toolchain_for(asked: Asked, request: SearchRequest) -> Toolchain:
    """The Python that compiles.

    Raises
    ------
    BadInputError
        An option does not go with ``--program trainer``, or lcplan does not compile that trainer's step.
    StageFailedError
        The trainer is not installed there, or it has no compiler for the hardware.
    """
    if asked.program != TRAINER:
        return probe(asked.toolchain)
    from planner.trainer_step.at_hand import STEPS, trainer_toolchain

    problems = []
    if asked.trainer is None:
        problems.append(f"--program trainer compiles the step of a trainer; name it: --for {' or '.join(STEPS)}")
    if request.workload.kind != "train":
        problems.append(f"--program trainer with --workload {request.workload.kind}: only a train step is compiled")
    if asked.stages in ("modelled", "timed"):
        problems.append(f"--stages {asked.stages}: --program trainer compiles and runs nothing; leave it out")
    if asked.engine != "local":
        problems.append(f"--engine {asked.engine}: the trainer's step is compiled on this machine; leave it out")
    if asked.tune is not None:
        problems.append(f"--tune {asked.tune}: the tuner compiles lcplan's own step; leave it out")
    if problems or asked.trainer is None:
        raise BadInputError(problems)
    return trainer_toolchain(asked.trainer, asked.toolchain, request.hardware)
