"""Choices: one value for a whole table for each field that its source leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from cost_models.inputs.setting import Setting
from lcplan.spec.rollout_workloads import WORKLOAD_TYPES, AnyWorkload
from lcplan.strategy import AXES, GPU_BACKENDS, AxisName, Mesh, Sampling, Strategy
from lcplan.strategy.remat import GRID_POLICIES, REMAT_POLICIES
from planner.validate.sources.facts import Facts
from planner.validate.sources.names import precision_of, remat_of, scheme_of
from planner.validate.sources.table import RowWorkload

OPTIONS: dict[str, tuple[str, ...]] = {
    "mesh": ("fsdp", "data", "context"),
    "precision": ("bf16",),
    "global_batch": ("one sequence", "two sequences", "four sequences"),
    "microbatches": ("one", "one sequence each"),
    "scheme": ("ring-zigzag", "ring", "all-gather", "ulysses"),
    "backend": (GPU_BACKENDS[0],),
    "remat": tuple(name for name in GRID_POLICIES if not REMAT_POLICIES[name].offloaded),
    "flop_convention": ("model", "full-attention", "hardware"),
}
"""The choices for an open field, the plainest first: the axis of the devices that no stated axis takes; sequences of each
microbatch of a data x fsdp rank; the batch of a rank in one microbatch, or in microbatches of one sequence."""

SEQUENCES = {"one sequence": 1, "two sequences": 2, "four sequences": 4}

Choice = Mapping[str, str]


def choices(fields: tuple[str, ...]) -> list[dict[str, str]]:
    """Every combination of options for the open fields, the plainest first."""
    return [dict(zip(fields, values, strict=True)) for values in product(*(OPTIONS[name] for name in fields))]


@dataclass(frozen=True)
class Case:
    """One row under one choice, for the cost model to price."""

    setting: Setting
    strategy: Strategy
    chosen: dict[str, Any]
    """The fields that the row leaves open, with their chosen values."""


class Cases:
    """Rows as cases; equal settings are one object, so that they are priced together."""

    def __init__(self) -> None:
        self._settings: dict[tuple[Any, ...], Setting] = {}

    def case(self, facts: Facts, choice: Choice) -> Case:
        """The row of ``facts`` with its open fields taken from ``choice``."""
        row = facts.row
        mesh = _mesh(facts, choice)
        replicas = mesh.data * mesh.fsdp * mesh.expert
        sequences = row.strategy.micro_batch or SEQUENCES[choice.get("global_batch", "one sequence")]
        batch = row.workload.global_batch or sequences * replicas * (row.strategy.microbatches or 1)
        microbatches = row.strategy.microbatches or _microbatches(facts, choice, sequences=batch / replicas)
        stated = row.strategy.remat
        named = remat_of(stated) if isinstance(stated, str) else None
        fields: dict[str, Any] = {
            "scheme": scheme_of(row.strategy.scheme) or choice.get("scheme", "ring-zigzag"),
            "remat": named or choice.get("remat", "full"),
            "backend": (row.strategy.backend or "").lower() or choice.get("backend", facts.hardware.backends[0]),
            "microbatches": microbatches,
        }
        setting = self._setting(facts, batch=batch, precision=row.workload.precision or choice.get("precision", "bf16"))
        rollout = _rollout(facts, mesh)
        strategy = Strategy.model_validate({"mesh": mesh, **fields, **_knobs(facts), "sampling": rollout})
        values = {"mesh": mesh.label, "global_batch": batch, "precision": setting.workload.precision, **fields}
        return Case(setting, strategy, {name: values[name] for name in facts.open})

    def _setting(self, facts: Facts, *, batch: int, precision: str) -> Setting:
        row = facts.row.workload
        key = (id(facts.model), id(facts.hardware), facts.program, row, batch, precision)
        if key not in self._settings:
            work = _workload(row, batch=batch, precision=precision)
            budget = facts.hardware.usable_bytes
            self._settings[key] = Setting(facts.model, facts.hardware, work, budget, facts.program)
        return self._settings[key]


def _workload(row: RowWorkload, *, batch: int, precision: str) -> AnyWorkload:
    made = WORKLOAD_TYPES[row.kind]
    stated = {name: value for name, value in row.model_dump().items() if name in made.model_fields}
    return made.model_validate(stated | {made.facts.batch_field: batch, "precision": precision_of(precision)})


def _rollout(facts: Facts, mesh: Mesh) -> Sampling | None:
    strategy = facts.row.strategy
    if facts.row.workload.facts.trained:
        return None
    return Sampling(mesh=mesh, parameters=strategy.parameters, cache=strategy.cache)


def _mesh(facts: Facts, choice: Choice) -> Mesh:
    sizes = {axis: facts.mesh.get(axis, 1) for axis in AXES}
    if "mesh" in facts.open:
        devices = facts.row.devices or 1
        free: list[AxisName] = [name for name in AXES if name not in facts.mesh]
        axis = next((name for name in free if name == choice.get("mesh", "fsdp")), free[0])
        taken = Mesh.model_validate(sizes).devices
        sizes[axis] = devices // taken
    return Mesh.model_validate(sizes)


def _microbatches(facts: Facts, choice: Choice, *, sequences: float) -> int:
    if facts.row.strategy.micro_batch is not None:
        return max(1, round(sequences / facts.row.strategy.micro_batch))
    return max(1, round(sequences)) if choice.get("microbatches") == "one sequence each" else 1


def _knobs(facts: Facts) -> dict[str, Any]:
    strategy = facts.row.strategy
    dtypes = ("gather_dtype", "reduce_dtype", "optimizer", "master_dtype", "moments_dtype", "grad_dtype")
    names = (
        "ulysses",
        "loss_chunk_tokens",
        "attention_block",
        "collective_matmul",
        *dtypes,
        "moe_dispatch",
        "moe_capacity_percent",
    )
    return {name: value for name in names if (value := getattr(strategy, name)) is not None}
