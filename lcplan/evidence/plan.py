"""Plan: the decision of a search, in a file that loads without the catalogue and without heavy imports."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from pydantic import Field

from lcplan.evidence.measurement import Compiled, Rung, Timed
from lcplan.formats.errors import BadInputError
from lcplan.formats.frozen import Frozen
from lcplan.formats.text import Line, VariableName
from lcplan.formats.textfile import read_yaml, write_yaml
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.model import ModelSpec
from lcplan.spec.rollout_workloads import AnyWorkload
from lcplan.strategy import AxisName, Strategy
from lcplan.strategy.remat import of_stored

PLAN_SCHEMA_VERSION = 2
"""2: remat policies have the names of ``lcplan.strategy.remat``; files of version 1 are translated on load."""


class Request(Frozen):
    """The question of a search."""

    model: ModelSpec
    hardware: HardwareSpec
    workload: AnyWorkload
    budget_bytes: int
    objective: str


class Evidence(Frozen):
    """The evidence on the strategy, by evidence level. ``estimate`` is the unscaled prediction of the cost model."""

    estimate: dict[str, Any]
    compiled: Compiled | None = None
    timed: Timed | None = None
    best_rung: Rung = "modelled"


class Launch(Frozen):
    """The shape of the job: processes and devices a process."""

    processes: int
    devices_per_process: int


class Plan(Frozen):
    """The emitted answer. ``jax.make_mesh`` takes ``mesh_axes`` and ``mesh_shape``, outermost first."""

    schema_version: int = PLAN_SCHEMA_VERSION
    lcplan_version: str
    request: Request
    strategy: Strategy
    evidence: Evidence
    xla_flags: tuple[Line, ...] = ()
    environment: dict[VariableName, Line] = Field(default_factory=dict)
    launch: Launch
    toolchain: dict[Line, Line] = Field(default_factory=dict)

    @property
    def mesh_axes(self) -> tuple[AxisName, ...]:
        """Axis names, outermost first."""
        return self.strategy.mesh_axes

    @property
    def mesh_shape(self) -> tuple[int, ...]:
        """Axis sizes in the order of ``mesh_axes``."""
        return self.strategy.mesh_shape

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a plan file.

        Raises
        ------
        BadInputError
            No such file, not a plan, an unknown field, or a newer schema_version.
        """
        data = read_yaml(path)
        if isinstance(data, dict) and data.get("kind") == "own-step":
            raise BadInputError(f"{path}: the plan of a step of your own; lcplan fits and lcplan inspect read it")
        version = data.get("schema_version") if isinstance(data, dict) else None
        if version is None:
            raise BadInputError(f"{path}: not a plan: missing key 'schema_version'")
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise BadInputError(f"{path}: schema_version: {version!r:.40} is not a whole number from 1")
        if version > PLAN_SCHEMA_VERSION:
            raise BadInputError(
                f"{path}: schema_version {version} is newer than the {PLAN_SCHEMA_VERSION} that this lcplan reads; "
                "upgrade lcplan"
            )
        return cls.read(_current(data), str(path))

    def save(self, path: str | Path) -> None:
        """Write atomically: a full disk or a kill leaves the old file or no file, never half of one."""
        write_yaml(path, self.model_dump(mode="json"))


def _current(data: dict[str, Any]) -> dict[str, Any]:
    """A plan's values under the names of today."""
    strategy = data.get("strategy")
    if data["schema_version"] == 1 and isinstance(strategy, dict):
        return data | {"schema_version": PLAN_SCHEMA_VERSION, "strategy": of_stored(strategy)}
    return data
