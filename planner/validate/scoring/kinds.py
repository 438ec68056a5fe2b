"""The kind of each row's prediction, and its errors, in the terms of ``cost_models.uncertainty``."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cost_models.uncertainty.kind import Kind, RestsOn, call_kind, rests_on
from planner.validate.choices import Case
from planner.validate.predict import Prediction
from planner.validate.sources.table import QUANTITIES, Part, Quantity
from planner.workloads.pricing import price_table, table_of

RATES_OF_WORK = frozenset({"tokens_per_s_per_device", "tflop_per_s_per_device"})
"""Quantities that are inverse to time."""


@dataclass(frozen=True)
class Placed:
    """The program and rates that a row's prediction rests on, and the kinds of its time and memory."""

    rests: RestsOn
    time: Kind
    memory: Kind

    def kind(self, quantity: Quantity) -> Kind:
        """The kind of one quantity."""
        return self.memory if quantity == "peak_bytes" else self.time


def log_error(quantity: Quantity, error_ratio: float) -> float:
    """``ln(predicted / measured)`` of a time or a memory; rates of work count as times."""
    error = math.log1p(error_ratio)
    return -error if quantity in RATES_OF_WORK else error


def compared(error_ratio: Mapping[Quantity, float]) -> Iterator[tuple[Quantity, float]]:
    """The signed errors of one row that count for its uncertainty: one of time and one of memory, where they are stated."""
    times = [name for name in QUANTITIES if name in error_ratio and name not in {"peak_bytes", "fits"}]
    for name in (*times[:1], "peak_bytes"):
        if name in error_ratio:
            yield name, log_error(name, error_ratio[name])


def placed(cases: Sequence[Case], parts: Sequence[Part], predictions: Sequence[Prediction]) -> list[Placed]:
    """The kinds of each case's prediction; equal settings are priced together."""
    groups: dict[int, list[int]] = defaultdict(list)
    for index, case in enumerate(cases):
        groups[id(case.setting)].append(index)
    found: dict[int, Placed] = {}
    for members in groups.values():
        setting = cases[members[0]].setting
        priced = price_table(setting, table_of(setting, [cases[index].strategy for index in members]))
        for row, index in enumerate(members):
            if parts[index] == "step":
                time = priced.rests_on.time_kind({key: float(column[row]) for key, column in priced.time_s.items()})
            else:
                launched = setting.program.dispatch == "eager" and cases[index].strategy.mesh.context > 1
                time = call_kind(float(predictions[index]["step_s"]), launched=launched)
            found[index] = Placed(rests_on(setting), time, priced.rests_on.memory_kind)
    return [found[index] for index in range(len(cases))]
