"""The tuner's history: each trial's step time as far as it got, and the best so far as a line under them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lcplan.formats.units import format_seconds
from planner.report.charts.chart import PALETTE, Chart, Figures
from planner.run.run_read import Run

OUTCOMES = ("improved", "kept", "pruned", "rejected", "failed")
SHAPES = ("diamond", "circle", "triangle-down", "cross", "square")
HEIGHT_PIXELS = 260
SPREAD = 2.0
"""Trials slower than this many times the best are left out of the picture, not of the table."""


def tuning(run: Run) -> Chart | None:
    """Step time over trials; None where nothing was tuned or no trial has a step time."""
    priced = [trial for trial in run.tuning if trial.get("step_s")]
    if not priced:
        return None
    best = min(float(trial["step_s"]) for trial in priced)
    near = [trial for trial in priced if float(trial["step_s"]) <= SPREAD * best]
    says = f"Dots of {len(near)} trials: the number across, the step time upwards; a line follows the best so far."
    beyond = len(priced) - len(near)
    return Chart(
        name="tuning",
        title="Trials of the tuner",
        says=says,
        spec=_spec([_value(trial) for trial in near], list(_best_so_far(priced))),
        figures=_figures(run),
        note=f"{beyond} trials priced at more than {SPREAD:g} times the best are only in the table." if beyond else "",
    )


def _value(trial: Mapping[str, Any]) -> dict[str, Any]:
    return {key: trial[key] for key in ("number", "strategy", "rung", "outcome", "step_s", "says")}


def _best_so_far(trials: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the best step so far over the trials that count: pruned ones are only priced."""
    best = float("inf")
    for trial in trials:
        if trial["outcome"] in ("improved", "kept"):
            best = min(best, float(trial["step_s"]))
            yield {"number": trial["number"], "best_s": best}


def _spec(values: list[dict[str, Any]], best: list[dict[str, Any]]) -> dict[str, Any]:
    seen = [name for name in OUTCOMES if any(value["outcome"] == name for value in values)]
    x = {"field": "number", "type": "quantitative", "title": "trial", "axis": {"tickMinStep": 1}}
    y = {"type": "quantitative", "title": "step time [s]", "scale": {"zero": False}}
    places = [OUTCOMES.index(name) for name in seen]
    dots = {
        "mark": {"type": "point", "filled": True, "size": 80},
        "encoding": {
            "x": x,
            "y": {**y, "field": "step_s"},
            "color": {"field": "outcome", "type": "nominal", "scale": {"domain": seen, "range": [PALETTE[i] for i in places]}},
            "shape": {"field": "outcome", "type": "nominal", "scale": {"domain": seen, "range": [SHAPES[i] for i in places]}},
            "tooltip": [{"field": name, "type": "nominal"} for name in ("number", "strategy", "rung", "outcome", "says")],
        },
    }
    line = {
        "data": {"values": best},
        "mark": {"type": "line", "interpolate": "step-after", "color": "currentColor", "opacity": 0.5},
        "encoding": {"x": x, "y": {**y, "field": "best_s"}},
    }
    return {"width": None, "height": HEIGHT_PIXELS, "data": {"values": values}, "layer": [line, dots]}


def _figures(run: Run) -> Figures:
    rows = tuple(
        (
            str(trial["number"]),
            str(trial["strategy"]),
            str(trial["rung"]),
            format_seconds(trial["step_s"]) if trial.get("step_s") else "-",
            str(trial["outcome"]) + (", on the front" if trial.get("pareto") else ""),
            str(trial["says"]),
        )
        for trial in run.tuning
    )
    return Figures(("trial", "strategy", "got to", "step", "outcome", "details"), rows)
