"""sweep: the best strategy at every point, each space priced once for all points that share it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cost_models.estimate import EstimateTable
from cost_models.inputs.layout import Bools
from cost_models.inputs.table import StrategyTable
from planner.candidates.candidate import Candidate
from planner.request.request import SearchRequest, default_tokens
from planner.request.request_changes import Ask
from planner.space.analysis import setting_of
from planner.what_if.binds import memory_binds, no_strategy, speed_binds
from planner.what_if.boundary import boundary
from planner.what_if.feasible import best_row
from planner.what_if.result import Point, Question
from planner.what_if.vary import (
    Quantity,
    Value,
    Varied,
    applied,
    combinations,
    link_bandwidth,
    point_json,
)
from planner.workloads.points import valid_points
from planner.workloads.pricing import price_table

SHARED = frozenset({"hbm", "devices"})
"""Quantities that only mask rows of a space that is priced already, where they decide no price."""

Combination = tuple[tuple[Quantity, Value], ...]


@dataclass(frozen=True)
class Priced:
    """Every valid strategy of one request, priced."""

    request: SearchRequest
    table: StrategyTable
    estimates: EstimateTable

    @classmethod
    def of(cls, ask: Ask) -> Priced:
        """Enumerate, reject and price up to the ask's devices."""
        table = valid_points(ask.request, ask.backends, most_devices=ask.most_devices)
        return cls(ask.request, table, price_table(setting_of(ask.request), table))

    @cached_property
    def need(self) -> NDArray[np.float64]:
        """Total and allowance [bytes per device], shape [n]."""
        return self.estimates.total_bytes + self.estimates.allowance_bytes

    @cached_property
    def devices(self) -> NDArray[np.int64]:
        """Devices of each row, shape [n]."""
        return self.table.devices

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """Rows best first: by objective, then fewer devices, then less memory."""
        each = self.devices if self.request.objective == "tokens_per_s_per_device" else 1.0
        return np.lexsort((self.estimates.total_bytes, self.devices, self.estimates.step_s * each))

    def best(self, among: Bools) -> int | None:
        """The first marked row in that order, without sorting all; None if no row is marked."""
        return best_row(self.table, self.estimates, objective=self.request.objective, fits=among)

    def candidate(self, row: int, *, fits: bool) -> Candidate:
        """Row ``row`` with the verdict of the point's own budget."""
        return Candidate(strategy=self.table.strategy(row), estimate=self.estimates.row(row) | {"fits": fits})


def sweep(ask: Ask, varied: tuple[Varied, ...], *, question: Question = "sweep") -> Iterator[Point]:
    """One point a combination, in the order of ``combinations``; a boundary question is asked at each."""
    spaces: dict[Combination, Priced] = {}
    for combination in combinations(varied):
        here = applied(ask, combination)
        names = point_json(combination)
        if "bandwidth" in names:
            names["bandwidth"] = names["bandwidth_oneway_bytes_per_s"] = link_bandwidth(here.request.hardware)
        if question != "sweep":
            found = boundary(here, question, explain=False)
            yield Point(names, found.request, found.candidate, found.binds, boundary=found)
            continue
        key = _key(here, combination)
        if key not in spaces:
            spaces[key] = Priced.of(_widest(ask, varied, combination=combination))
        yield _point(here, spaces[key], names=names)


def _key(here: Ask, combination: Combination) -> Combination:
    """The facts in which two points must agree to share a space; a default batch may follow the devices."""
    hardware = here.request.hardware
    grows = hardware.kind == "cpu" or default_tokens(hardware) > default_tokens(hardware, 1)
    follows = grows and not here.request.workload.global_batch_given
    planned_with = hardware.kind == "gpu"  # XLA rematerialises above a share of a GPU's memory
    shared = SHARED - ({"devices"} if follows else set()) - ({"hbm"} if planned_with else set())
    return tuple((quantity, value) for quantity, value in combination if quantity.name not in shared)


def _widest(ask: Ask, varied: tuple[Varied, ...], *, combination: Combination) -> Ask:
    """The point's request with the most devices of any point that shares its space."""
    key = _key(applied(ask, combination), combination)
    most = max((int(value) for one in varied if one.quantity.name == "devices" for value in one.values), default=0)
    here = applied(ask, key)
    return (
        here if any(quantity.name == "devices" for quantity, _ in key) or not most else Ask(here.request, here.backends, most)
    )


def _point(here: Ask, space: Priced, *, names: dict[str, Value]) -> Point:
    request = here.request
    inside = space.devices <= here.most_devices
    fastest = space.best(inside)
    if fastest is None:
        return Point(names, request, None, no_strategy(here))
    row = space.best(inside & (space.need <= request.budget_bytes))
    if row is None:
        miss = space.candidate(int(np.argmin(np.where(inside, space.need, np.inf))), fits=False)
        return Point(names, request, miss, memory_binds(miss, request.budget_bytes))
    best = space.candidate(row, fits=True)
    return Point(names, request, best, speed_binds(best, space.estimates, row=row, fastest=fastest))
