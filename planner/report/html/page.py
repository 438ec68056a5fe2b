"""The page: everything in one file, no request to anywhere, readable without its script."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lcplan.formats.errors import BadInputError, StageFailedError
from lcplan.formats.textfile import write_text
from planner.explain.explanation import Explanation, explain
from planner.report.charts.chart import Chart
from planner.report.charts.collectives import collectives
from planner.report.charts.funnel import funnel
from planner.report.charts.mesh_map import mesh_map
from planner.report.charts.pareto import pareto
from planner.report.charts.parts import MEMORY, TIME, parts_chart
from planner.report.charts.predictions import predictions
from planner.report.charts.priced_sample import cloud
from planner.report.charts.tuning import tuning
from planner.report.charts.vega import require
from planner.report.view.page import Page
from planner.run.run_read import Run


@dataclass(frozen=True)
class Report:
    """A run explained, with its charts in the order of the page."""

    found: Explanation
    charts: tuple[Chart, ...]

    @classmethod
    def of(cls, run: Run, *, price_usd_per_device_hour: float | None = None) -> Report:
        """Explain the winner and draw everything.

        Raises
        ------
        BadInputError
            The run has no candidate at all, so that there is nothing to draw.
        """
        if not run.shown:
            raise BadInputError(f"{run.path}: every strategy was rejected by a rule, so there is nothing to report on")
        found = explain(run, price_usd_per_device_hour=price_usd_per_device_hour)
        made = (
            pareto(run, cloud(run.request, run.backends)),
            parts_chart(run, MEMORY),
            parts_chart(run, TIME),
            mesh_map(found.candidate.strategy, run.request.hardware),
            funnel(run),
            collectives(found),
            predictions(run),
            tuning(run),
        )
        return cls(found, tuple(chart for chart in made if chart is not None))

    def html(self) -> str:
        """The whole page.

        Raises
        ------
        StageFailedError
            The extra is missing.
        """
        require()
        from planner.report.html.template import render

        return render(Page.of(self.found, self.charts))


def write_report(report: Report, file: Path) -> None:
    """Write the page, all or nothing.

    Raises
    ------
    StageFailedError
        The extra is missing, or the file cannot be written.
    """
    page = report.html()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, page)
    except OSError as error:
        raise StageFailedError(f"{file}: {error.strerror or error}; choose another file with --out") from None
