"""max-batch: the most sequences that a step can hold at once."""

from __future__ import annotations

from cost_models.inputs.layout import Floats
from cost_models.inputs.table import StrategyTable
from planner.request.request import SearchRequest
from planner.request.request_changes import Ask
from planner.space.analysis import setting_of
from planner.what_if.last_fit import last_fit
from planner.workloads.pricing import need_bytes
from planner.workloads.registry import planned

MOST_SEQUENCES = 2**40
"""The largest global batch that a workload takes."""


def without_accumulation(request: SearchRequest) -> SearchRequest:
    """The request with one microbatch per step, unless it names its own.

    With gradient accumulation a batch costs time and hardly any memory, so that no batch would be the largest.
    """
    if request.filters.microbatches:
        return request
    return request.model_copy(update={"filters": request.filters.model_copy(update={"microbatches": (1,)})})


def largest_batch(ask: Ask) -> int | None:
    """The largest batch that fits [sequences]: a multiple of the number of sequences that its strategy splits evenly."""
    return max((_largest(ask, table, unit=unit) for unit, table in planned(ask.request).batches(ask)), default=0) or None


def _largest(ask: Ask, table: StrategyTable, *, unit: int) -> int:
    request = ask.request

    def need(rows: StrategyTable, batches: int) -> Floats:
        workload = request.workload.resized(global_batch=batches * unit)
        return need_bytes(setting_of(request.model_copy(update={"workload": workload})), rows)

    found = last_fit(table, need, budget_bytes=request.budget_bytes, low=1, high=MOST_SEQUENCES // unit)
    return (found or 0) * unit
