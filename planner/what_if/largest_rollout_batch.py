"""max-batch of a rollout: the most sequences that are sampled at a time."""

from __future__ import annotations

import numpy as np

from cost_models.inputs.layout import Floats
from cost_models.inputs.table import StrategyTable
from lcplan.strategy import AXES
from planner.candidates.pricing import need_bytes
from planner.request.request import SearchRequest
from planner.request.request_changes import Ask
from planner.rules.rollout import ROLLOUT_RULES
from planner.space.analysis import mesh_table, setting_of
from planner.space.enumerate import Ints, mesh_sizes
from planner.space.reject import screen
from planner.space.rollout_space import expand
from planner.what_if.last_fit import last_fit

MOST_SEQUENCES = 2**40
"""The largest batch that a workload takes."""
_OF_BATCH = frozenset({"batch", "decode-rows"})


def largest_rollout(ask: Ask) -> int | None:
    """The largest batch that fits [sequences]: a multiple of data x fsdp x tensor of its layout."""
    meshes = mesh_sizes(ask.request, ask.most_devices)
    rules = tuple(rule for rule in ROLLOUT_RULES if rule.name not in _OF_BATCH)
    meshes = meshes[screen(setting_of(ask.request), rules, mesh_table(meshes)) < 0]
    units = meshes[:, [AXES.index(axis) for axis in ("data", "fsdp", "tensor")]].prod(axis=1)
    return max((_largest(ask, meshes[units == unit], unit=int(unit)) for unit in np.unique(units)), default=0) or None


def _largest(ask: Ask, meshes: Ints, *, unit: int) -> int:
    request = ask.request

    def at(batches: int) -> SearchRequest:
        return request.model_copy(update={"workload": request.workload.resized(global_batch=batches * unit)})

    def need(rows: StrategyTable, batches: int) -> Floats:
        return need_bytes(setting_of(at(batches)), rows)

    table = expand(request.filters, ask.backends, meshes)
    found = last_fit(table, need, budget_bytes=request.budget_bytes, low=1, high=MOST_SEQUENCES // unit)
    return (found or 0) * unit
