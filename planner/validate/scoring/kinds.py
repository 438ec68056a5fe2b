"""The kind of each row's prediction, and its errors, in the terms of ``cost_models.uncertainty``."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cost_models.uncertainty.kind import PredictionFacts, call_kind
from planner.validate.choices import Case
from planner.validate.predict import Prediction
from planner.validate.sources.table import QUANTITIES, Part, Quantity
from planner.workloads.pricing import price_table, table_of

RATES_OF_WORK = frozenset({"tokens_per_s_per_device", "tflop_per_s_per_device"})
"""Quantities that are inverse to time."""


@dataclass(frozen=True)
class Placed:
    """The facts by which a row's time and memory are compared with those of other rows."""

    time: PredictionFacts
    memory: PredictionFacts

    def about(self, quantity: Quantity) -> PredictionFacts:
        """The facts of one quantity."""
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
    placed_rows: dict[int, Placed] = {}
    for members in groups.values():
        setting = cases[members[0]].setting
        priced = price_table(setting, table_of(setting, [cases[index].strategy for index in members]))
        for row, index in enumerate(members):
            rests = priced.rests_on
            time_s, memory = ({k: float(v[row]) for k, v in found.items()} for found in (priced.time_s, priced.memory_bytes))
            time = rests.time(time_s)
            if parts[index] != "step":
                launched = setting.program.dispatch == "eager" and cases[index].strategy.mesh.context > 1
                seconds = float(predictions[index]["step_s"])
                time = PredictionFacts(call_kind(seconds, launched=launched), rests.rates, whole=seconds)
            placed_rows[index] = Placed(time, rests.memory(memory))
    return [placed_rows[index] for index in range(len(cases))]
