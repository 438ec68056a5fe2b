"""Strategies that the cost model leaves out by less than the half-width of their memory: where a compile decides."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from planner.candidates.candidate import Candidate
from planner.request.request import SearchRequest
from planner.request.request_changes import Ask
from planner.space.analysis import setting_of
from planner.what_if.boundary import boundary
from planner.what_if.refine import MOST_COMPILES, CompiledBoundary, Measure
from planner.what_if.result import Boundary, Question
from planner.workloads.points import valid_points
from planner.workloads.pricing import need_bytes, price


def near_boundary(answer: Boundary, question: Question, *, most_devices: int) -> Boundary | None:
    """The boundary by the cost model if the budget were larger by the half-width of memory; None without a half-width."""
    priced = _priced(answer)
    if priced is None:
        return None
    request = _with_half_width(answer.request, priced)
    return boundary(Ask(request, (priced.strategy.backend,), most_devices), question, explain=False)


def fewest_as_compiled(answer: Boundary, *, most_devices: int, measure: Measure) -> CompiledBoundary | None:
    """The fewest devices on which a strategy fits as compiled, of counts that the half-width of memory allows; None: no count.

    Of each count the strategy of least memory is compiled, the fewest devices first.
    """
    priced = _priced(answer)
    missed = None
    near = _least_by_devices(answer, priced, most_devices) if priced else iter(())
    for compiles, (devices, candidate) in enumerate(islice(near, MOST_COMPILES), 1):
        measured = measure(answer.request, candidate) if devices != answer.value else candidate
        if measured.target_compile is None:
            break
        if measured.best.fits:
            return CompiledBoundary(devices, missed, 1, measured, compiles)
        missed = devices
    return None


def _least_by_devices(answer: Boundary, priced: Candidate, most_devices: int) -> Iterator[tuple[int, Candidate]]:
    request = answer.request
    table = valid_points(request, (priced.strategy.backend,), most_devices=most_devices)
    need = need_bytes(setting_of(request), table)
    near = np.flatnonzero(need <= _with_half_width(request, priced).budget_bytes)
    for devices in np.unique(table.devices[near]):
        rows = near[table.devices[near] == devices]
        yield int(devices), price(request, table.strategy(int(rows[np.argmin(need[rows])])))


def _priced(answer: Boundary) -> Candidate | None:
    return answer.candidate or (answer.next.miss if answer.next else None)


def _with_half_width(request: SearchRequest, priced: Candidate) -> SearchRequest:
    ratio = priced.estimate["uncertainty"]["memory_ratio"]
    return request.model_copy(update={"budget_bytes": int(request.budget_bytes * (1.0 + ratio))})
