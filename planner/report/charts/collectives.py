"""The collective inventory: modelled bytes of a step, next to the bytes in the executable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lcplan.formats.units import GIB, format_bytes
from planner.explain.explanation import Explanation
from planner.explain.inventory import Line
from planner.report.charts.chart import PALETTE, Chart, Figures

HEADINGS = (
    "operation",
    "axis",
    "link",
    "modelled bytes per step",
    "calls",
    "compiled bytes per step",
    "calls",
    "backend",
    "verdict",
)


def collectives(found: Explanation) -> Chart | None:
    """One row per operation and axis; None where the step has no collective."""
    lines = [line for line in found.inventory if max(line.modelled_bytes, line.compiled_bytes or 0) > 0]
    if not lines:
        return None
    compiled = any(line.compiled_bytes is not None for line in lines)
    links = {(transfer.op, transfer.axis): transfer.link for transfer in found.transfers}
    values = [value for line in lines for value in _values(line)]
    spec = _spec(values, (36 if compiled else 24) * len(lines))
    figures = Figures(HEADINGS, tuple(_row(line, links.get((line.op, line.axis), "-")) for line in lines))
    says = f"Bars of {len(lines)} kinds of collective, " + (
        "modelled and compiled" if compiled else "modelled; nothing was compiled"
    )
    return Chart("collectives", "Collectives of the winner's step", says, spec, figures)


def _values(line: Line) -> Iterator[dict[str, Any]]:
    sides = (("modelled", line.modelled_bytes, line.modelled_calls), ("compiled", line.compiled_bytes, line.compiled_calls))
    for source, size, calls in sides:
        if size is not None:
            name = f"{line.op} over {line.axis or '?'}"
            yield {"collective": name, "source": source, "gib": float(f"{size / GIB:.5g}"), "calls": calls}


def _spec(values: list[dict[str, Any]], height: int) -> dict[str, Any]:
    tooltip = [
        {"field": "collective", "type": "nominal"},
        {"field": "source", "type": "nominal"},
        {"field": "gib", "type": "quantitative", "title": "GiB per step", "format": ".4g"},
        {"field": "calls", "type": "quantitative", "title": "calls per step"},
    ]
    colours = {"domain": ["modelled", "compiled"], "range": [PALETTE[0], PALETTE[1]]}
    return {
        "width": None,
        "height": height,
        "data": {"values": values},
        "mark": {"type": "bar", "cornerRadius": 1},
        "encoding": {
            "y": {"field": "collective", "type": "nominal", "sort": None, "title": None},
            "yOffset": {"field": "source", "type": "nominal", "sort": ["modelled", "compiled"]},
            "x": {"field": "gib", "type": "quantitative", "title": "GiB per step and device"},
            "color": {"field": "source", "type": "nominal", "scale": colours, "title": None},
            "tooltip": tooltip,
        },
    }


def _row(line: Line, link: str) -> tuple[str, ...]:
    return (
        line.op,
        line.axis or "?",
        link,
        format_bytes(line.modelled_bytes),
        f"{line.modelled_calls:,}",
        "-" if line.compiled_bytes is None else format_bytes(line.compiled_bytes),
        "-" if line.compiled_calls is None else f"{line.compiled_calls:,}",
        " ".join(line.backends) or "-",
        line.verdict or "not compiled",
    )
