"""Survivors: from every strategy that fits to the few plans that are worth a compile, and the alternatives worth a look."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cost_models.inputs.table import CODES, StrategyTable
from lcplan.strategy import AXES
from lcplan.strategy.remat import REMAT_POLICIES
from planner.candidates.ties import NOISE_RATIO, PLAIN_BACKENDS, SWITCHES, preference, tied

Indices = NDArray[np.int64]
Column = NDArray[np.float64]

SCHEME_TOLERANCE = 0.1
"""How much slower than the leader another scheme's best may be priced and still be compiled: about the difference between
published measurements of one configuration and the fitted cost model (docs: how a search decides)."""

FRONT_STEP = 0.8
"""The front of time against memory is shown in steps: each plan takes at most this share of the memory of the one before."""

TOLD_APART_BY_COMPILING = ("backend", "sharding_mode", "scheduler")
"""Knobs whose values the cost model hardly distinguishes, and an executable does: they are values of one plan."""

_POLICIES = [REMAT_POLICIES[str(name)] for name in CODES["remat"]]


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


@dataclass(frozen=True)
class Fitting:
    """The strategies that fit, with their objective (larger is better) and costs; columns of shape [n].

    ``parts`` are the objective's costs by part of time, by which ties are found, and ``ratio`` is the half-width of a cost.
    """

    table: StrategyTable
    objective: Column
    costs: Costs
    parts: Mapping[str, Column]
    ratio: float
    asked: tuple[str, ...] = ()
    """Knobs of ``TOLD_APART_BY_COMPILING`` of which the request names several values, to be compiled next to each other."""

    @cached_property
    def order(self) -> Indices:
        """Rows by objective; equal ones by devices, then by memory."""
        return np.lexsort((self.costs.memory_bytes, self.costs.devices, -self.objective))

    @cached_property
    def switches(self) -> Indices:
        """Flags and rarer programs that each row needs (``planner.candidates.ties.switches``), shape [n]."""
        columns = [getattr(self.table, name) != CODES[name].index(plain) for name, plain in SWITCHES.items()]
        rare = np.array([name not in PLAIN_BACKENDS for name in CODES["backend"]])[self.table.backend]
        offloads = np.array([bool(policy.offloaded) for policy in _POLICIES])[self.table.remat]
        return np.sum([*columns, rare, offloads], axis=0)

    @cached_property
    def chosen(self) -> int:
        """The preferred one of the rows that tie with the best."""
        best = int(self.order[0])
        near = self.order[self.objective[self.order] * (1.0 + max(self.ratio, NOISE_RATIO)) >= self.objective[best]]
        leader = {key: float(column[best]) for key, column in self.parts.items()}
        alike = near[tied({key: column[near] for key, column in self.parts.items()}, leader, self.ratio)]
        least = float(self.costs.memory_bytes[alike].min())
        return int(
            min(
                alike,
                key=lambda row: preference(
                    devices=int(self.costs.devices[row]),
                    memory=float(self.costs.memory_bytes[row]),
                    least=max(least, 1.0),
                    step=NOISE_RATIO,
                    changed=int(self.switches[row]),
                ),
            )
        )

    def plan(self, row: int) -> Indices:
        """The rows of the same plan, which differ in ``TOLD_APART_BY_COMPILING`` only, best first.

        Rows within the noise of the best one are ordered by their switches.
        """
        same = np.ones(len(self.table), dtype=bool)
        for name in self.table.__dataclass_fields__:
            if name not in TOLD_APART_BY_COMPILING:
                column = getattr(self.table, name)
                same &= column == column[row]
        rows = np.flatnonzero(same)
        value = self.objective[rows]
        alike = value >= value.max() / (1.0 + NOISE_RATIO)
        return rows[np.lexsort((-value, np.where(alike, self.switches[rows], 0), ~alike))]

    def asked_beside(self, row: int, other: int) -> bool:
        """Whether two rows of one plan differ only in knobs of which the request names several values."""
        apart = {name for name in TOLD_APART_BY_COMPILING if getattr(self.table, name)[row] != getattr(self.table, name)[other]}
        return apart <= set(self.asked)

    def best_of_each(self, key: NDArray[np.int64], among: Indices) -> list[int]:
        """The best row of each value of ``key`` (shape [n]), best first; empty for one value. ``among``: rows in order."""
        values, first = np.unique(key[among], return_index=True)
        if len(values) < 2:
            return []
        return [int(among[index]) for index in sorted(first)]

    @cached_property
    def family(self) -> NDArray[np.int64]:
        """The axes above one of each row's mesh, as a number, shape [n]."""
        return np.sum([(getattr(self.table, axis) > 1).astype(np.int64) << place for place, axis in enumerate(AXES)], axis=0)

    @cached_property
    def front(self) -> list[int]:
        """The front of time against memory by objective, in steps of ``FRONT_STEP``."""
        on_front = pareto_front(Costs(-self.objective, self.costs.memory_bytes, np.zeros(len(self.objective))))
        kept: list[int] = []
        for row in self.order[on_front[self.order]]:
            if not kept or self.costs.memory_bytes[row] <= FRONT_STEP * self.costs.memory_bytes[kept[-1]]:
                kept.append(int(row))
        return kept


def one_of_each_plan(fitting: Fitting, order: Indices) -> Iterator[int]:
    """Rows in ``order``, one for each plan: the best of its backends, sharding modes and scheduler presets."""
    seen: set[int] = set()
    for row in order:
        if int(row) not in seen:
            first, *others = (int(one) for one in fitting.plan(int(row)))
            seen.update((first, *others))
            yield first


def survivor_order(fitting: Fitting) -> Iterator[int]:
    """Rows in the order in which they deserve a compile; of each plan one row represents its backends.

    The choice of the cost model and the fastest; then the best of every other scheme within ``SCHEME_TOLERANCE``, since the
    model cannot decide a difference that small and a compile shows its collectives; then the front of time against memory,
    and the best of each remat policy and mesh family, whose memory a compile corrects most; then the others by objective.
    At the end come the other backends, sharding modes and scheduler presets of the same plans; values that the request
    names follow their plan.
    """
    if not len(fitting.objective):
        return
    seen: set[int] = set()
    later: list[int] = []
    for row in _leaders(fitting):
        if row not in seen:
            first, *others = (int(one) for one in fitting.plan(row))
            seen.update((first, *others))
            beside = [one for one in others if fitting.asked_beside(one, first)]
            later += [one for one in others if one not in beside]
            yield first
            yield from beside
    yield from later


def _leaders(fitting: Fitting) -> Iterator[int]:
    """Rows in order; a row may come twice, and so may a plan."""
    best = int(fitting.order[0])
    yield fitting.chosen
    yield best
    close = fitting.order[fitting.objective[fitting.order] >= fitting.objective[best] * (1 - SCHEME_TOLERANCE)]
    close = close[fitting.table.context[close] > 1]
    yield from fitting.best_of_each(fitting.table.scheme.astype(np.int64), close)
    yield from (row for row, _ in alternatives(fitting))
    yield from (int(row) for row in fitting.order)


def alternatives(fitting: Fitting) -> Iterator[tuple[int, str]]:
    """Rows that show the choice, each with the reason: the front, and the best of each remat policy, scheme and mesh family."""
    if not len(fitting.objective):
        return
    yield from ((row, "front") for row in fitting.front)
    table, order = fitting.table, fitting.order
    for row in fitting.best_of_each(table.remat.astype(np.int64), order):
        yield row, f"remat {CODES['remat'][table.remat[row]]}"
    with_context = order[table.context[order] > 1]
    for row in fitting.best_of_each(table.scheme.astype(np.int64), with_context):
        yield row, f"scheme {CODES['scheme'][table.scheme[row]]}"
    for row in fitting.best_of_each(fitting.family, order):
        axes = [axis for axis in AXES if getattr(table, axis)[row] > 1]
        yield row, f"mesh {' x '.join(axes) or 'one device'}"
