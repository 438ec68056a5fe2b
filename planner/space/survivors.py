"""Pruning: from every strategy that fits to the few that are worth a compile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cost_models.inputs.table import StrategyTable

Indices = NDArray[np.int64]
Column = NDArray[np.float64]

SCHEME_TOLERANCE = 0.1
"""How much slower than the leader another scheme's best may be priced and still be compiled: about the difference between
published measurements of one configuration and the fitted cost model (docs: how a search decides)."""

TOLD_APART_BY_COMPILING = ("backend", "sharding_mode", "scheduler")
"""Knobs whose values the cost model hardly distinguishes, and an executable does."""


@dataclass(frozen=True)
class Costs:
    """The costs over which the front is taken; all columns of shape [n], smaller is better."""

    step_s: Column
    memory_bytes: Column
    devices: Column


def pareto_front(costs: Costs) -> NDArray[np.bool_]:
    """Rows that no other row beats on every cost, shape [n]. Of equal rows the first represents all.

    First within each device count (a sort and a running minimum), then among those fronts.
    """
    on_front = np.zeros(len(costs.step_s), dtype=bool)
    order = np.lexsort((costs.memory_bytes, costs.step_s, costs.devices))
    devices, memory = costs.devices[order], costs.memory_bytes[order]
    edges = np.flatnonzero(np.diff(devices, prepend=np.nan, append=np.nan) != 0) if len(order) else np.zeros(1, dtype=np.int64)
    for start, end in pairwise(edges):
        best_before = np.r_[np.inf, np.minimum.accumulate(memory[start:end])[:-1]]
        on_front[order[start:end][memory[start:end] < best_before]] = True
    return _without_beaten(costs, on_front)


def _without_beaten(costs: Costs, on_front: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Drop rows that a row on fewer devices beats or equals in time and memory."""
    rows = np.flatnonzero(on_front)
    kept = on_front.copy()
    for row in rows:
        fewer = rows[costs.devices[rows] < costs.devices[row]]
        beaten = (costs.step_s[fewer] <= costs.step_s[row]) & (costs.memory_bytes[fewer] <= costs.memory_bytes[row])
        kept[row] = not beaten.any()
    return kept


def survivor_order(table: StrategyTable, objective: Column, costs: Costs) -> Iterator[int]:
    """Rows in the order in which they deserve a compile.

    The leader; then the best of every other scheme that is within ``SCHEME_TOLERANCE`` of it, since the cost model cannot
    decide a difference that small; then the Pareto front by objective (larger is better); then the others by objective.
    Each of the first three is followed by the same strategy on its other backends (sharding modes, scheduler presets). Ties
    go to fewer devices, then to less memory.
    """
    order = np.lexsort((costs.memory_bytes, costs.devices, -objective))
    front = pareto_front(costs)
    leaders = [*_scheme_leaders(table, objective, order), *(int(row) for row in order[front[order]])]
    seen: set[int] = set()
    for leader in leaders:
        for row in (leader, *_siblings(table, leader)):
            if row not in seen:
                seen.add(row)
                yield row
    for row in order:
        if int(row) not in seen:
            yield int(row)


def _scheme_leaders(table: StrategyTable, objective: Column, order: Indices) -> list[int]:
    """The best row, and the best of each other scheme that is close to it (rows without a context axis have no scheme)."""
    if not len(order):
        return []
    best = int(order[0])
    close = order[(objective[order] >= objective[best] * (1 - SCHEME_TOLERANCE)) & (table.context[order] > 1)]
    _, first = np.unique(table.scheme[close], return_index=True)
    return [best, *(int(close[index]) for index in sorted(first))]


def _siblings(table: StrategyTable, row: int) -> list[int]:
    same = np.ones(len(table), dtype=bool)
    for name in table.__dataclass_fields__:
        if name not in TOLD_APART_BY_COMPILING:
            column = getattr(table, name)
            same &= column == column[row]
    return [int(i) for i in np.flatnonzero(same) if i != row]
