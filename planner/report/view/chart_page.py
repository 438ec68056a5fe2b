"""The values of a page of charts and tables."""

from __future__ import annotations

from dataclasses import dataclass, field

from planner.report.charts.chart import Chart, Figures


@dataclass(frozen=True)
class ChartPage:
    """``facts`` are (name, value, detail); ``tables`` are (heading, figures)."""

    title: str
    asked: str
    verdict: str
    good: bool
    facts: tuple[tuple[str, str, str], ...]
    charts: tuple[Chart, ...]
    tables: tuple[tuple[str, Figures], ...] = ()
    notes: tuple[str, ...] = field(default=())
