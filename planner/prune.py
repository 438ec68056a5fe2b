"""Pruning: from every strategy that fits to the few that are worth a compile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cost_models.table import StrategyTable

Indices = NDArray[np.int64]
Column = NDArray[np.float64]


@dataclass(frozen=True)
class Costs:
    """What the front is taken over; all columns of shape [n], smaller is better."""

    step_s: Column
    memory_bytes: Column
    devices: Column


def pareto_front(costs: Costs) -> NDArray[np.bool_]:
    """Rows that no other row beats on every cost, shape [n]. Of equal rows the first stands for all.

    First within each device count (a sort and a running minimum), then among those fronts.
    """
    on_front = np.zeros(len(costs.step_s), dtype=bool)
    order = np.lexsort((costs.memory_bytes, costs.step_s, costs.devices))
    devices, memory = costs.devices[order], costs.memory_bytes[order]
    starts = np.flatnonzero(np.r_[True, devices[1:] != devices[:-1]]) if len(order) else np.empty(0, dtype=np.int64)
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
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

    The Pareto front by objective (larger is better), each leader followed by the same strategy on its other backends, then
    everything else by objective. Ties go to fewer devices, then to less memory.
    """
    order = np.lexsort((costs.memory_bytes, costs.devices, -objective))
    front = pareto_front(costs)
    seen: set[int] = set()
    for row in order[front[order]]:
        for member in (int(row), *_backend_siblings(table, int(row))):
            if member not in seen:
                seen.add(member)
                yield member
    for row in order:
        if int(row) not in seen:
            yield int(row)


def _backend_siblings(table: StrategyTable, row: int) -> list[int]:
    same = np.ones(len(table), dtype=bool)
    for name in table.__dataclass_fields__:
        if name != "backend":
            column = getattr(table, name)
            same &= column == column[row]
    return [int(i) for i in np.flatnonzero(same) if i != row]
