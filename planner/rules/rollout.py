"""Rules on a rollout's mesh and layout. The train step's rules on devices and on weights apply to a rollout too."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.formats.nearest import near_multiples
from lcplan.strategy import ParameterLayout, Sampling, Strategy
from planner.rules.batch import BATCH_RULES
from planner.rules.devices import DEVICE_RULES
from planner.rules.interface import Mask, Rule
from planner.rules.sharding import SHARDING_RULES


def _one_token(setting: Setting, table: StrategyTable) -> Mask:
    return (table.context > 1) | (table.expert > 1) | (table.pipe > 1)


def _say_one_token(setting: Setting, strategy: Strategy) -> str:
    mesh = strategy.mesh
    axis = next(f"{name}={getattr(mesh, name)}" for name in ("context", "expert", "pipe") if getattr(mesh, name) > 1)
    return f"{axis}: a decode step has one token of each sequence; use data, fsdp and tensor"


def _latent(setting: Setting, table: StrategyTable) -> Mask:
    return np.full(len(table), setting.model.latent is not None)


def _say_latent(setting: Setting, strategy: Strategy) -> str:
    return f"{setting.model.name} has latent attention, through which decoding is not built; ask for a model without it"


def _rows(setting: Setting, table: StrategyTable) -> Mask:
    ranks = table.data * table.fsdp
    return (setting.workload.global_batch % (ranks * table.tensor) != 0) & (setting.workload.global_batch % ranks == 0)


def _say_rows(setting: Setting, strategy: Strategy) -> str:
    mesh, batch = strategy.mesh, setting.workload.global_batch
    return (
        f"tensor={mesh.tensor} does not divide the {batch // (mesh.data * mesh.fsdp)} sequences of a data x fsdp rank, whose "
        f"rows it splits; use a batch of {near_multiples(mesh.data * mesh.fsdp * mesh.tensor, batch)}, or a smaller tensor"
    )


ROLLOUT_RULES: tuple[Rule, ...] = (
    Rule("plain-attention", "mesh", _latent, _say_latent),
    Rule("one-token", "mesh", _one_token, _say_one_token),
    *(rule for rule in (*DEVICE_RULES, *SHARDING_RULES, *BATCH_RULES[:1]) if rule.level == "mesh"),
    Rule("decode-rows", "mesh", _rows, _say_rows),
)
"""Rules in the order in which a rejected mesh is counted."""


def layouts_of(fsdp: int, tensor: int) -> tuple[ParameterLayout, ...]:
    """The parameter layouts that make different programs on a mesh."""
    if fsdp > 1:
        return ("gathered-once", "gathered-per-step")
    return ("replicated",) if tensor == 1 else ("tensor-sharded",)


def layout_problems(sampling: Sampling) -> Iterator[str]:
    """Why a mesh cannot have the parameter layout, and which it can."""
    mesh = sampling.mesh
    if sampling.parameters not in layouts_of(mesh.fsdp, mesh.tensor):
        ways = " or ".join(layouts_of(mesh.fsdp, mesh.tensor))
        yield f"parameters={sampling.parameters} does not go with fsdp={mesh.fsdp},tensor={mesh.tensor}; use {ways}"
