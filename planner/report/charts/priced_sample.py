"""Cloud: a readable sample of all priced strategies, for the scatter behind the survivors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.report.view.labels import scheme_label
from planner.request.request import SearchRequest
from planner.request.request_changes import Ask
from planner.space.survivors import Costs, pareto_front
from planner.what_if.sweep import Priced

BEST, SAMPLE = 250, 500
"""Rows kept by rank, and at random among the others: more dots would hide each other and weigh on the page."""
HIGHEST = 4
"""Rows above this many budgets are not drawn: they are far from fitting and would squeeze the others."""


@dataclass(frozen=True)
class Dot:
    """One priced strategy. ``need_bytes`` is total and allowance; ``front`` marks the Pareto front of the rows that fit."""

    label: str
    scheme: str
    remat: str
    backend: str
    devices: int
    step_s: float
    need_bytes: float
    fits: bool
    front: bool


def cloud(request: SearchRequest, backends: tuple[str, ...]) -> tuple[Dot, ...]:
    """The front, the best and a fixed random sample of the rest, each backend's twin left out."""
    space = Priced.of(Ask(request, backends[:1], request.devices or request.hardware.devices))
    if not len(space.table):
        return ()
    fits = space.need <= request.budget_bytes
    front = np.zeros(len(fits), dtype=bool)
    rows = np.flatnonzero(fits)
    costs = Costs(space.estimates.step_s[rows], space.need[rows], space.devices[rows].astype(np.float64))
    front[rows[pareto_front(costs)]] = True
    order = space.order[fits[space.order]]
    drawn = np.flatnonzero(space.need <= HIGHEST * request.budget_bytes)
    chosen = np.unique(np.concatenate([np.flatnonzero(front)[:BEST], order[:BEST], drawn[_sample(len(drawn))]]))
    return tuple(_dot(space, int(row), fits=bool(fits[row]), front=bool(front[row])) for row in chosen)


def _sample(rows: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The same rows at every call, so that a report is the same file twice."""
    return np.random.default_rng(0).permutation(rows)[:SAMPLE]


def _dot(space: Priced, row: int, *, fits: bool, front: bool) -> Dot:
    strategy = space.table.strategy(row)
    return Dot(
        label=strategy.label,
        scheme=scheme_label(strategy),
        remat=strategy.remat,
        backend=strategy.backend,
        devices=strategy.devices,
        step_s=float(space.estimates.step_s[row]),
        need_bytes=float(space.need[row]),
        fits=fits,
        front=front,
    )
