"""The collective inventory: bytes of a step by the laws beside those in the executable."""

from __future__ import annotations

from lcplan.units import GIB, format_bytes
from planner.explain.explanation import Explanation
from planner.report.charts.chart import PALETTE, Chart, Figures


def collectives(found: Explanation) -> Chart | None:
    """One row an operation and axis; None where the step has none."""
    lines = [line for line in found.inventory if max(line.modelled_bytes, line.compiled_bytes or 0) > 0]
    if not lines:
        return None
    compiled = any(line.compiled_bytes is not None for line in lines)
    links = {(transfer.op, transfer.axis): transfer.link for transfer in found.transfers}
    values = []
    for line in lines:
        name = f"{line.op} over {line.axis or '?'}"
        values.append(
            {
                "collective": name,
                "source": "modelled",
                "gib": float(f"{line.modelled_bytes / GIB:.5g}"),
                "calls": line.modelled_calls,
            }
        )
        if line.compiled_bytes is not None:
            values.append(
                {
                    "collective": name,
                    "source": "compiled",
                    "gib": float(f"{line.compiled_bytes / GIB:.5g}"),
                    "calls": line.compiled_calls,
                }
            )
    spec = {
        "width": None,
        "height": (36 if compiled else 24) * len(lines),
        "data": {"values": values},
        "mark": {"type": "bar", "cornerRadius": 1},
        "encoding": {
            "y": {"field": "collective", "type": "nominal", "sort": None, "title": None},
            "yOffset": {"field": "source", "type": "nominal", "sort": ["modelled", "compiled"]},
            "x": {"field": "gib", "type": "quantitative", "title": "GiB a step and device"},
            "color": {
                "field": "source",
                "type": "nominal",
                "scale": {"domain": ["modelled", "compiled"], "range": [PALETTE[0], PALETTE[1]]},
                "title": None,
            },
            "tooltip": [
                {"field": "collective", "type": "nominal"},
                {"field": "source", "type": "nominal"},
                {"field": "gib", "type": "quantitative", "title": "GiB a step", "format": ".4g"},
                {"field": "calls", "type": "quantitative", "title": "calls a step"},
            ],
        },
    }
    rows = tuple(
        (
            line.op,
            line.axis or "?",
            links.get((line.op, line.axis), "-"),
            format_bytes(line.modelled_bytes),
            f"{line.modelled_calls:,}",
            "-" if line.compiled_bytes is None else format_bytes(line.compiled_bytes),
            "-" if line.compiled_calls is None else f"{line.compiled_calls:,}",
            " ".join(line.backends) or "-",
            line.verdict or "not compiled",
        )
        for line in lines
    )
    headings = (
        "operation",
        "axis",
        "link",
        "modelled bytes a step",
        "calls",
        "compiled bytes a step",
        "calls",
        "backend",
        "verdict",
    )
    says = f"Bars of {len(lines)} kinds of collective, " + (
        "modelled beside compiled" if compiled else "modelled; nothing was compiled"
    )
    return Chart("collectives", "Collectives of the winner's step", says, spec, Figures(headings, rows))
