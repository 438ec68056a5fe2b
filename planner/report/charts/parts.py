"""Memory and time by part, as stacked bars of the best ten."""

from __future__ import annotations

from lcplan.units import GIB, format_bytes, format_seconds
from planner.candidate import Candidate
from planner.report.charts.chart import Chart, Figures
from planner.run_read import Run
from planner.show.candidates import mesh_label

SHOWN = 10
BAR_PIXELS = 26


def memory_parts(run: Run) -> Chart:
    """Where each candidate's bytes go."""
    return _bars(run, "memory", "Memory by part", key="memory_bytes", scale=GIB, unit="GiB a device")


def time_parts(run: Run) -> Chart:
    """Where each candidate's seconds go."""
    return _bars(run, "time", "Step time by part", key="time_s", scale=1.0, unit="seconds a step")


def _bars(run: Run, name: str, title: str, *, key: str, scale: float, unit: str) -> Chart:
    shown = run.shown[:SHOWN]
    parts = _parts(shown, key)
    labels = [f"{number}  {short_label(candidate)}" for number, candidate in enumerate(shown, start=1)]
    values = [
        {
            "candidate": label,
            "part": part.replace("_", " "),
            "order": parts.index(part),
            "value": float(f"{candidate.estimate[key].get(part, 0) / scale:.5g}"),
        }
        for label, candidate in zip(labels, shown, strict=True)
        for part in parts
        if candidate.estimate[key].get(part, 0) > 0
    ]
    show = format_bytes if key == "memory_bytes" else format_seconds
    figures = Figures(
        ("candidate", *(part.replace("_", " ") for part in parts)),
        tuple(
            (label, *(show(candidate.estimate[key].get(part, 0)) for part in parts))
            for label, candidate in zip(labels, shown, strict=True)
        ),
    )
    spec = {
        "width": None,
        "height": BAR_PIXELS * max(len(shown), 1),
        "data": {"values": values},
        "mark": {"type": "bar", "cornerRadius": 1},
        "encoding": {
            "y": {"field": "candidate", "type": "nominal", "sort": labels, "title": None},
            "x": {"field": "value", "type": "quantitative", "stack": "zero", "title": f"{unit} (modelled)"},
            "color": {
                "field": "part",
                "type": "nominal",
                "sort": [part.replace("_", " ") for part in parts],
                "title": None,
                "legend": {"orient": "bottom", "columns": 5},
            },
            "order": {"field": "order", "type": "quantitative"},
            "tooltip": [
                {"field": "candidate", "type": "nominal"},
                {"field": "part", "type": "nominal"},
                {"field": "value", "type": "quantitative", "title": unit, "format": ".4g"},
            ],
        },
    }
    says = f"Stacked bars of the best {len(shown)} candidates, one part a colour; the table below has every figure."
    return Chart(name, title, says, spec, figures)


def _parts(shown: tuple[Candidate, ...], key: str) -> list[str]:
    """Parts that some candidate has, largest sum first."""
    sums: dict[str, float] = {}
    for candidate in shown:
        for part, value in candidate.estimate[key].items():
            if part != "total":
                sums[part] = sums.get(part, 0.0) + value
    return sorted((part for part, total in sums.items() if total > 0), key=lambda part: -sums[part])


def short_label(candidate: Candidate) -> str:
    """Mesh, scheme, remat and backend in few letters."""
    strategy = candidate.strategy
    scheme = f" {strategy.scheme}" if strategy.mesh.context > 1 else ""
    return f"{mesh_label(candidate)}{scheme} {strategy.remat} {strategy.backend}"
