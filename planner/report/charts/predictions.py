"""Predictions and measurements: modelled memory and time, relative to the compiler's and the clock's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from lcplan.formats.units import format_bytes, format_seconds
from planner.candidates.candidate import Candidate
from planner.report.charts.chart import PALETTE, Chart, Figures
from planner.report.view.labels import short_label
from planner.run.run_read import Run

ROW_PIXELS = 24
LEAST_RANGE = 0.05
"""Errors are drawn within at least so much either way: smaller ones are not to look large."""
_WORDS = {"memory": "memory, over compiled", "step": "step, over timed"}


@dataclass(frozen=True)
class Pair:
    """One prediction with its measurement."""

    label: str
    quantity: Literal["memory", "step"]
    predicted: float
    measured: float
    rung: str

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted / self.measured - 1

    def show(self, value: float) -> str:
        """A value of this quantity for people."""
        return format_bytes(value) if self.quantity == "memory" else format_seconds(value)


def predictions(run: Run) -> Chart | None:
    """Relative errors as dots on a line; None where nothing was compiled or timed."""
    pairs = [pair for number, candidate in enumerate(run.shown, start=1) for pair in _pairs(candidate, number)]
    if not pairs:
        return None
    values = [{"candidate": pair.label, "quantity": _WORDS[pair.quantity], "error": pair.error} for pair in pairs]
    rows = tuple(
        (pair.label, pair.quantity, pair.show(pair.predicted), pair.show(pair.measured), f"{pair.error:+.1%}", pair.rung)
        for pair in pairs
    )
    headings = ("candidate", "quantity", "predicted", "measured", "error", "rung")
    says = f"Dots of {len(pairs)} relative errors of the cost models, around zero."
    largest = max(LEAST_RANGE, *(abs(pair.error) for pair in pairs)) * 1.15
    spec = _spec(values, largest)
    return Chart("predictions", "Predictions and measurements", says, spec, Figures(headings, rows))


def _pairs(candidate: Candidate, number: int) -> Iterator[Pair]:
    label = f"{number}  {short_label(candidate.strategy)}"
    compiled, timed = candidate.compiled, candidate.timed
    if compiled is not None and compiled.total_bytes:
        predicted = candidate.estimate["memory_bytes"]["total"]
        yield Pair(label, "memory", predicted=predicted, measured=compiled.total_bytes, rung=compiled.rung)
    if timed is not None and timed.step_s:
        yield Pair(label, "step", predicted=candidate.estimate["step_s"], measured=timed.step_s, rung=timed.rung)


def _spec(values: list[dict[str, Any]], largest: float) -> dict[str, Any]:
    zero = {"mark": {"type": "rule", "color": "currentColor", "opacity": 0.5}, "encoding": {"x": {"datum": 0}, "y": None}}
    colours = {"scale": {"range": [PALETTE[0], PALETTE[1]]}, "legend": {"orient": "bottom"}}
    quantity = {"field": "quantity", "type": "nominal", "title": None}
    tooltip = [
        {"field": "candidate", "type": "nominal"},
        {"field": "quantity", "type": "nominal"},
        {"field": "error", "type": "quantitative", "format": "+.2%"},
    ]
    dots = {
        "mark": {"type": "point", "filled": True, "size": 110},
        "encoding": {"color": {**quantity, **colours}, "shape": quantity, "tooltip": tooltip},
    }
    x = {"field": "error", "type": "quantitative", "axis": {"format": "+.0%"}, "scale": {"domain": [-largest, largest]}}
    return {
        "width": None,
        "height": ROW_PIXELS * len({value["candidate"] for value in values}),
        "data": {"values": values},
        "encoding": {
            "y": {"field": "candidate", "type": "nominal", "sort": None, "title": None},
            "x": {**x, "title": "predicted over measured, less one"},
        },
        "layer": [zero, dots],
    }
