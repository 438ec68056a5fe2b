"""Predictions beside measurements: the laws' memory and time over what the compiler and the clock said."""

from __future__ import annotations

from lcplan.units import format_bytes, format_seconds
from planner.report.charts.chart import PALETTE, Chart, Figures
from planner.report.charts.parts import short_label
from planner.run_read import Run


def predictions(run: Run) -> Chart | None:
    """Relative errors as dots on a line; None where nothing was compiled or timed."""
    values: list[dict[str, str | float]] = []
    rows: list[tuple[str, ...]] = []
    for number, candidate in enumerate(run.shown, start=1):
        label = f"{number}  {short_label(candidate)}"
        memory, step = candidate.estimate["memory_bytes"]["total"], candidate.estimate["step_s"]
        compiled = candidate.compiled.total_bytes if candidate.compiled else None
        timed = candidate.timed.step_s if candidate.timed else None
        if compiled:
            values.append({"candidate": label, "quantity": "memory, over compiled", "error": memory / compiled - 1})
            rows.append(
                (
                    label,
                    "memory",
                    format_bytes(memory),
                    format_bytes(compiled),
                    f"{memory / compiled - 1:+.1%}",
                    candidate.compiled.rung if candidate.compiled else "",
                )
            )
        if timed:
            values.append({"candidate": label, "quantity": "step, over timed", "error": step / timed - 1})
            rows.append(
                (
                    label,
                    "step",
                    format_seconds(step),
                    format_seconds(timed),
                    f"{step / timed - 1:+.1%}",
                    candidate.timed.rung if candidate.timed else "",
                )
            )
    if not values:
        return None
    largest = max(0.05, *(abs(value["error"]) for value in values if isinstance(value["error"], float))) * 1.15
    spec = {
        "width": None,
        "height": 24 * len({value["candidate"] for value in values}),
        "data": {"values": values},
        "encoding": {
            "y": {"field": "candidate", "type": "nominal", "sort": None, "title": None},
            "x": {
                "field": "error",
                "type": "quantitative",
                "axis": {"format": "+.0%"},
                "scale": {"domain": [-largest, largest]},
                "title": "predicted over measured, less one",
            },
        },
        "layer": [
            {"mark": {"type": "rule", "color": "currentColor", "opacity": 0.5}, "encoding": {"x": {"datum": 0}, "y": None}},
            {
                "mark": {"type": "point", "filled": True, "size": 110},
                "encoding": {
                    "color": {
                        "field": "quantity",
                        "type": "nominal",
                        "title": None,
                        "scale": {"range": [PALETTE[0], PALETTE[1]]},
                        "legend": {"orient": "bottom"},
                    },
                    "shape": {"field": "quantity", "type": "nominal", "title": None},
                    "tooltip": [
                        {"field": "candidate", "type": "nominal"},
                        {"field": "quantity", "type": "nominal"},
                        {"field": "error", "type": "quantitative", "format": "+.2%"},
                    ],
                },
            },
        ],
    }
    headings = ("candidate", "quantity", "predicted", "measured", "error", "rung")
    says = f"Dots of {len(values)} relative errors of the laws, around zero."
    return Chart("predictions", "Predictions beside measurements", says, spec, Figures(headings, tuple(rows)))
