"""StepPlan: the layout that a search chose for a step of one's own, in a file that the training script loads."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from pydantic import Field

from lcplan.evidence.execution import StepCompiled
from lcplan.evidence.plan import Launch
from lcplan.formats.errors import BadInputError
from lcplan.formats.frozen import Frozen
from lcplan.formats.text import Line, VariableName
from lcplan.formats.textfile import read_yaml, write_yaml
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.own_step import StepStrategy

STEP_PLAN_SCHEMA_VERSION = 1
KIND = "own-step"
"""The value of ``kind`` by which a file is one of these."""


class StepPlan(Frozen):
    """The emitted answer. It names the step file for the reader; nothing that loads the plan runs that file."""

    schema_version: int = STEP_PLAN_SCHEMA_VERSION
    kind: str = KIND
    lcplan_version: str
    step: Line
    """Path of the step file, as it was given."""
    step_digest: Line
    """Hash of its content and of the local modules that it imports."""
    hardware: HardwareSpec
    workload: dict[Line, int]
    budget_bytes: int
    objective: Line
    strategy: StepStrategy
    estimate: dict[str, Any]
    """Time estimated from the executable."""
    compiled: StepCompiled
    xla_flags: tuple[Line, ...] = ()
    environment: dict[VariableName, Line] = Field(default_factory=dict)
    launch: Launch
    toolchain: dict[Line, Line] = Field(default_factory=dict)

    @property
    def mesh_axes(self) -> tuple[str, ...]:
        """Axis names, outermost first."""
        return tuple(self.strategy.mesh)

    @property
    def mesh_shape(self) -> tuple[int, ...]:
        """Axis sizes in the order of ``mesh_axes``."""
        return tuple(self.strategy.mesh.values())

    @property
    def argument(self) -> dict[str, Any]:
        """The ``strategy`` that ``build`` takes."""
        return self.strategy.argument

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a plan file.

        Raises
        ------
        BadInputError
            No such file, not a plan of a step of one's own, an unknown field, or a newer schema_version.
        """
        data = read_yaml(path)
        if not isinstance(data, dict) or data.get("kind") != KIND:
            raise BadInputError(
                f"{path}: not the plan of a step of one's own: kind is not {KIND!r}; lcplan.Plan loads other plans"
            )
        version = data.get("schema_version")
        if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= STEP_PLAN_SCHEMA_VERSION:
            raise BadInputError(
                f"{path}: schema_version {version!r:.40} is not one that this lcplan reads (up to {STEP_PLAN_SCHEMA_VERSION});"
                " upgrade lcplan"
            )
        return cls.read(data, str(path))

    def save(self, path: str | Path) -> None:
        """Write atomically."""
        write_yaml(path, self.model_dump(mode="json"))
