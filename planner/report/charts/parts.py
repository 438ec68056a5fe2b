"""Memory and time by part, as stacked bars of the best ten."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cost_models.parts.find import memory_label, time_label
from lcplan.formats.units import GIB, format_bytes, format_seconds
from planner.candidates.candidate import Candidate
from planner.report.charts.chart import Chart, Figures
from planner.report.view.labels import short_label
from planner.run.run_read import Run

SHOWN = 10
BAR_PIXELS = 26


@dataclass(frozen=True)
class Kind:
    """One of the two breakdowns."""

    name: str
    title: str
    key: str
    scale: float
    unit: str
    show: Callable[[float], str]
    label: Callable[[str], str]


MEMORY = Kind("memory", "Memory by part", "memory_bytes", GIB, "GiB per device", format_bytes, memory_label)
TIME = Kind("time", "Step time by part", "time_s", 1.0, "seconds per step", format_seconds, time_label)


def parts_chart(run: Run, kind: Kind) -> Chart:
    """Split each candidate's bytes or seconds into parts."""
    shown = run.shown[:SHOWN]
    parts = _parts(shown, kind.key)
    words = [kind.label(part) for part in parts]
    labelled = [
        (f"{number}  {short_label(candidate.strategy)}", candidate.estimate[kind.key])
        for number, candidate in enumerate(shown, 1)
    ]
    values = [
        {"candidate": label, "part": word, "order": order, "value": float(f"{found.get(part, 0) / kind.scale:.5g}")}
        for label, found in labelled
        for order, (part, word) in enumerate(zip(parts, words, strict=True))
        if found.get(part, 0) > 0
    ]
    rows = tuple((label, *(kind.show(found.get(part, 0)) for part in parts)) for label, found in labelled)
    says = f"Stacked bars of the best {len(shown)} candidates, one part a colour; the table below has every figure."
    spec = _spec(values, words, kind=kind)
    return Chart(kind.name, kind.title, says, spec, Figures(("candidate", *words), rows))


def _spec(values: list[dict[str, Any]], words: list[str], *, kind: Kind) -> dict[str, Any]:
    labels = list(dict.fromkeys(value["candidate"] for value in values))
    legend = {"orient": "bottom", "columns": 5}
    tooltip = [
        {"field": "candidate", "type": "nominal"},
        {"field": "part", "type": "nominal"},
        {"field": "value", "type": "quantitative", "title": kind.unit, "format": ".4g"},
    ]
    return {
        "width": None,
        "height": BAR_PIXELS * max(len(labels), 1),
        "data": {"values": values},
        "mark": {"type": "bar", "cornerRadius": 1},
        "encoding": {
            "y": {"field": "candidate", "type": "nominal", "sort": labels, "title": None},
            "x": {"field": "value", "type": "quantitative", "stack": "zero", "title": f"{kind.unit} (modelled)"},
            "color": {"field": "part", "type": "nominal", "sort": words, "title": None, "legend": legend},
            "order": {"field": "order", "type": "quantitative"},
            "tooltip": tooltip,
        },
    }


def _parts(shown: tuple[Candidate, ...], key: str) -> list[str]:
    """Parts that some candidate has, largest sum first."""
    sums: dict[str, float] = {}
    for candidate in shown:
        for part, value in candidate.estimate[key].items():
            if part != "total":
                sums[part] = sums.get(part, 0.0) + value
    return sorted((part for part, total in sums.items() if total > 0), key=lambda part: -sums[part])
