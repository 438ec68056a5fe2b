"""The prune funnel: how many strategies are left after each stage, and which rules took the rest."""

from __future__ import annotations

from typing import Any

from planner.report.charts.chart import PALETTE, Chart, Figures
from planner.run.result import SpaceCounts
from planner.run.run_read import Run

ROW_PIXELS = 30
LEFT_EDGE = 0.4
"""The start of bars on the log scale, so that a single strategy still has a bar."""


def funnel(run: Run) -> Chart | None:
    """Stages as bars; None for a plan, which knows no space."""
    if run.space is None:
        return None
    stages = _stages(run, run.space)
    rows = [(stage, f"{count:,}", "") for stage, count in stages]
    rejected = sorted(run.space.rejected.items(), key=lambda item: -item[1])
    rows += [(f"rejected by rule {rule}", f"{count:,}", run.rejected_examples.get(rule, "")) for rule, count in rejected]
    says = "Bars of how many strategies each stage leaves: " + ", ".join(f"{count:,} {stage}" for stage, count in stages)
    figures = Figures(("stage", "strategies", "for example"), tuple(rows))
    return Chart("funnel", "From the space to the survivors", says, _spec(stages), figures)


def _stages(run: Run, space: SpaceCounts) -> list[tuple[str, int]]:
    stages = [
        ("enumerated", space.enumerated),
        ("break no rule", space.estimated),
        ("fit the budget as modelled", space.estimated - space.over_budget),
        ("compiled", sum(candidate.compiled is not None for candidate in run.candidates)),
        ("timed", sum(candidate.timed is not None for candidate in run.candidates)),
        ("survivors that fit", space.survivors),
    ]
    return [(stage, count) for stage, count in stages if count or stage in {"enumerated", "survivors that fit"}]


def _spec(stages: list[tuple[str, int]]) -> dict[str, Any]:
    values = [{"stage": stage, "count": max(count, LEFT_EDGE), "label": f"{count:,}"} for stage, count in stages]
    scale = {"type": "log", "domainMin": LEFT_EDGE}
    axis = {"format": "~s", "tickCount": 6}
    return {
        "width": None,
        "height": ROW_PIXELS * len(stages),
        "data": {"values": values},
        "encoding": {
            "y": {"field": "stage", "type": "nominal", "sort": [stage for stage, _ in stages], "title": None},
            "x": {"field": "count", "type": "quantitative", "scale": scale, "title": "strategies, log scale", "axis": axis},
        },
        "layer": [
            {"mark": {"type": "bar", "color": PALETTE[0], "cornerRadius": 2}, "encoding": {"x2": {"datum": LEFT_EDGE}}},
            {"mark": {"type": "text", "align": "left", "dx": 6}, "encoding": {"text": {"field": "label"}}},
        ],
    }
