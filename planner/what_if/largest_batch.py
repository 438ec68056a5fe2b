"""max-batch: the most sequences that a step can hold at once."""

from __future__ import annotations

import numpy as np

from cost_models.inputs.layout import Floats
from cost_models.inputs.table import StrategyTable
from lcplan.strategy import AXES
from planner.candidates.pricing import need_bytes
from planner.request.request import SearchRequest
from planner.request.request_changes import Ask
from planner.rules import MESH_RULES
from planner.space.analysis import knob_rules_of, mesh_table, setting_of
from planner.space.enumerate import Ints, Knobs, expand, mesh_sizes
from planner.space.reject import screen
from planner.what_if.largest_rollout_batch import largest_rollout
from planner.what_if.last_fit import last_fit

MOST_SEQUENCES = 2**40
"""The largest global batch that a workload takes."""


def without_accumulation(request: SearchRequest) -> SearchRequest:
    """The request with one microbatch a step, unless it names its own.

    With gradient accumulation a batch costs time and hardly any memory, so that no batch would be the largest.
    """
    if request.filters.microbatches:
        return request
    return request.model_copy(update={"filters": request.filters.model_copy(update={"microbatches": (1,)})})


def largest_batch(ask: Ask) -> int | None:
    """The largest global batch that fits [sequences]: a multiple of data x fsdp x microbatches of its strategy."""
    if ask.request.workload.kind == "sample":
        return largest_rollout(ask)
    best = 0
    for microbatches in ask.request.filters.microbatches:
        filters = ask.request.filters.model_copy(update={"microbatches": (microbatches,)})
        request = ask.request.model_copy(update={"filters": filters})
        for ranks, meshes in _by_ranks(ask, request):
            best = max(best, _largest(ask, request, meshes=meshes, unit=ranks * microbatches))
    return best or None


def _by_ranks(ask: Ask, request: SearchRequest) -> list[tuple[int, Ints]]:
    """Meshes that break no rule but the batch's, by data x fsdp."""
    meshes = mesh_sizes(request, ask.most_devices)
    rules = tuple(rule for rule in MESH_RULES if rule.name != "batch")
    meshes = meshes[screen(setting_of(request), rules, mesh_table(meshes)) < 0]
    ranks = meshes[:, AXES.index("data")] * meshes[:, AXES.index("fsdp")]
    return [(int(count), meshes[ranks == count]) for count in np.unique(ranks)]


def _largest(ask: Ask, request: SearchRequest, *, meshes: Ints, unit: int) -> int:
    def at(batches: int) -> SearchRequest:
        workload = request.workload.resized(global_batch=batches * unit)
        return request.model_copy(update={"workload": workload})

    def need(rows: StrategyTable, batches: int) -> Floats:
        return need_bytes(setting_of(at(batches)), rows)

    table = expand(at(1), Knobs.of(request.filters, ask.backends, kind=request.hardware.kind), meshes)
    table = table.take(screen(setting_of(at(1)), knob_rules_of(request), table) < 0)
    found = last_fit(table, need, budget_bytes=request.budget_bytes, low=1, high=MOST_SEQUENCES // unit)
    return (found or 0) * unit
