"""The prune funnel: how many strategies are left after each stage, and which rules took the rest."""

from __future__ import annotations

from planner.report.charts.chart import PALETTE, Chart, Figures
from planner.run_read import Run


def funnel(run: Run) -> Chart | None:
    """Stages as bars; None for a plan, which knows no space."""
    space = run.space
    if space is None:
        return None
    compiled = sum(candidate.compiled is not None for candidate in run.candidates)
    timed = sum(candidate.timed is not None for candidate in run.candidates)
    stages = [
        ("enumerated", space.enumerated),
        ("break no rule", space.estimated),
        ("fit the budget by the laws", space.estimated - space.over_budget),
        ("compiled", compiled),
        ("timed", timed),
        ("survivors that fit", space.survivors),
    ]
    stages = [(stage, count) for stage, count in stages if count or stage in {"enumerated", "survivors that fit"}]
    values = [{"stage": stage, "count": max(count, 0.5), "label": f"{count:,}"} for stage, count in stages]
    order = [stage for stage, _ in stages]
    spec = {
        "width": None,
        "height": 30 * len(stages),
        "data": {"values": values},
        "encoding": {
            "y": {"field": "stage", "type": "nominal", "sort": order, "title": None},
            "x": {
                "field": "count",
                "type": "quantitative",
                "scale": {"type": "log", "domainMin": 0.4},
                "title": "strategies, log scale",
                "axis": {"format": "~s", "tickCount": 6},
            },
        },
        "layer": [
            {"mark": {"type": "bar", "color": PALETTE[0], "cornerRadius": 2}, "encoding": {"x2": {"datum": 0.4}}},
            {"mark": {"type": "text", "align": "left", "dx": 6}, "encoding": {"text": {"field": "label"}}},
        ],
    }
    rows = [(stage, f"{count:,}", "") for stage, count in stages]
    rejected = sorted(space.rejected.items(), key=lambda item: -item[1])
    rows += [(f"rejected by rule {rule}", f"{count:,}", run.rejected_examples.get(rule, "")) for rule, count in rejected]
    says = "Bars of how many strategies each stage leaves: " + ", ".join(f"{count:,} {stage}" for stage, count in stages)
    return Chart(
        "funnel", "From the space to the survivors", says, spec, Figures(("stage", "strategies", "for example"), tuple(rows))
    )
