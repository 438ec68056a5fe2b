"""Boundary questions: the answer fits, one step further nothing does, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cost_models.inputs.layout import Bools
from cost_models.inputs.table import StrategyTable
from lcplan.strategy import Strategy
from planner.candidates.candidate import Candidate
from planner.request.request import SearchRequest
from planner.request.request_changes import Ask, length_unit
from planner.space.analysis import setting_of
from planner.what_if.binds import Binds, memory_binds, no_strategy, rejecting_rule
from planner.what_if.changes.smallest_change import changes_that_fit
from planner.what_if.feasible import best_row, fits_any, nearest_miss
from planner.what_if.fewest_devices import fewest_devices
from planner.what_if.largest_batch import largest_batch, without_accumulation
from planner.what_if.longest import longest_sequence
from planner.what_if.result import Boundary, Moved, NextStep, Question
from planner.workloads.points import valid_points
from planner.workloads.pricing import price_table
from planner.workloads.registry import planned

MOST_STEPS = 4096
"""Steps beyond the boundary that are tried for one at which no strategy fits, aligned to its own mesh or not."""


@dataclass(frozen=True)
class _Kind:
    """How one question is answered: the value, which rows may answer, the step, and the asks around it."""

    find: Callable[[Ask], int | None]
    at: Callable[[Ask, int], Ask]
    aligned: Callable[[StrategyTable, int], Bools]
    unit: Callable[[SearchRequest, Strategy], int]
    smallest: int
    without: tuple[str, ...]
    sign: int = 1


def _at_length(ask: Ask, value: int) -> Ask:
    return ask.with_request(ask.at(seq_len=value))


def _at_batch(ask: Ask, value: int) -> Ask:
    request = ask.at(global_batch=value)
    workload = request.workload.resized(given=True)
    return ask.with_request(request.model_copy(update={"workload": workload}))


def _at_devices(ask: Ask, value: int) -> Ask:
    return Ask(ask.request, ask.backends, value)


def _whole_tiles(table: StrategyTable, value: int) -> Bools:
    units = table.context * np.lcm(128, table.tensor)
    return value % units == 0


def _any(table: StrategyTable, _: int) -> Bools:
    return np.ones(len(table), dtype=bool)


def _length_unit(_: SearchRequest, strategy: Strategy) -> int:
    return length_unit(strategy.mesh.context, strategy.mesh.tensor)


def _batch_unit(request: SearchRequest, strategy: Strategy) -> int:
    return planned(request).batch_unit(strategy)


def _one_device(_: SearchRequest, __: Strategy) -> int:
    return 1


KINDS: dict[Question, _Kind] = {
    "max-seq": _Kind(longest_sequence, _at_length, _whole_tiles, _length_unit, 128, ("sequence",)),
    "max-batch": _Kind(largest_batch, _at_batch, _any, _batch_unit, 1, ("batch",)),
    "min-devices": _Kind(
        fewest_devices, _at_devices, lambda table, value: table.devices == value, _one_device, 1, ("devices",), -1
    ),
}


def boundary(ask: Ask, question: Question, *, explain: bool = True) -> Boundary:
    """Answer one question. ``explain``: also the rule in the way and the changes that move the boundary (slower)."""
    kind = KINDS[question]
    if question == "max-batch":
        ask = ask.with_request(without_accumulation(ask.request))
    value = kind.find(ask)
    if value is None:
        return _nothing(ask, kind, explain=explain)
    here = kind.at(ask, value)
    candidate = _best(here, kind, value=value)
    following = _next(ask, kind, value=value, step=kind.unit(ask.request, candidate.strategy))
    return _told(ask, kind, explain=explain, found=(value, candidate, following))


def _best(here: Ask, kind: _Kind, *, value: int) -> Candidate:
    table = valid_points(here.request, here.backends, most_devices=here.most_devices)
    table = table.take(kind.aligned(table, value))
    estimates = price_table(setting_of(here.request), table)
    row = best_row(table, estimates, objective=here.request.objective, fits=estimates.fits)
    assert row is not None, "a boundary was found at which no strategy fits"
    return Candidate(strategy=table.strategy(row), estimate=estimates.row(row))


def _next(ask: Ask, kind: _Kind, *, value: int, step: int) -> int | None:
    """The nearest value a whole number of steps further at which no strategy at all fits; None if there is no such value."""
    if kind.sign < 0:
        return value - 1 or None
    for steps in range(1, MOST_STEPS):
        further = value + steps * step
        if kind is KINDS["max-seq"] and further > ask.longest:
            return None
        there = kind.at(ask, further)
        if not fits_any(there):
            return further
    return None


def _told(ask: Ask, kind: _Kind, *, explain: bool, found: tuple[int, Candidate, int | None]) -> Boundary:
    value, candidate, further = found
    here = kind.at(ask, value)
    if further is None:
        return Boundary(value, None, candidate, _end(ask, kind, value=value), None, None, here.request)
    there = kind.at(ask, further)
    miss = nearest_miss(there)
    binds = memory_binds(miss, there.request.budget_bytes) if miss else no_strategy(there)
    return Boundary(
        value=value,
        step=abs(further - value),
        candidate=candidate,
        binds=binds,
        rule=rejecting_rule(there, miss) if explain else None,
        next=NextStep(further, miss, there.request),
        request=here.request,
        changes=_changes(there, kind, without=kind.without) if explain else (),
    )


def _end(ask: Ask, kind: _Kind, *, value: int) -> Binds:
    if kind.sign < 0:
        return Binds("rule", "devices", "one device is the least")
    return Binds("rule", "largest", f"{value} is within one step of the largest that a workload takes")


def _nothing(ask: Ask, kind: _Kind, *, explain: bool) -> Boundary:
    """Answer where nothing fits: the smallest question, the closest miss and the changes that would help."""
    there = ask if kind.sign < 0 else kind.at(ask, kind.smallest)
    miss = nearest_miss(there)
    binds = memory_binds(miss, there.request.budget_bytes) if miss else no_strategy(there)
    return Boundary(
        value=None,
        step=None,
        candidate=None,
        binds=binds,
        rule=rejecting_rule(there, miss) if explain else None,
        next=NextStep(ask.most_devices if kind.sign < 0 else kind.smallest, miss, there.request),
        request=there.request,
        changes=_changes(there, kind, without=kind.without if kind.sign > 0 else ()) if explain else (),
    )


def _changes(there: Ask, kind: _Kind, *, without: tuple[str, ...]) -> tuple[Moved, ...]:
    """The changes that would help one step further, and how far each moves the boundary."""
    changes = changes_that_fit(there, without=without)
    return tuple(Moved(change, kind.find(change.ask)) for change in changes)
