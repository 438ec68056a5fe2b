"""The page: everything in one file, no request to anywhere, readable without its script."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from lcplan import __version__
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
from planner.report.charts.tuning import tuning
from planner.report.html import sections
from planner.report.html.escape import choice, element, figure, text
from planner.report.html.exports import trainer_files
from planner.report.html.priced_sample import cloud
from planner.report.html.renderer import javascript
from planner.run.run_read import Run
from planner.workloads.pricing import price

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
"""The browser itself refuses any request; Vega builds its expressions with Function."""


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
        """The whole page."""
        run = self.found.run
        shown = {chart.name: chart for chart in self.charts}
        first = [figure(shown["pareto"], _filters(run, shown["pareto"])), sections.candidates(run)]
        rest = [figure(chart) for name, chart in shown.items() if name != "pareto"]
        words = [
            sections.why(self.found),
            sections.basis(self.found),
            sections.plan(run, trainer_files(run.plan_file) if run.plan_file else ()),
        ]
        ends = [sections.notes(run, _stale(run)), sections.sources(run.request)]
        main = element("main", sections.answer(self.found), *first, *rest, *words, *ends, attributes={"id": "main"})
        return _document(sections._title(run), main)


def _stale(run: Run) -> tuple[str, ...]:
    """A note where today's laws would price the run otherwise: the cloud is of today, the candidates are of the run."""
    winner = run.winner
    if winner is None or price(run.request, winner.strategy).estimate == winner.estimate:
        return ()
    return (
        "The laws have changed since this run: the faint dots are priced by this lcplan, the candidates by the one that ran.",
    )


def _filters(run: Run, chart: Chart) -> str:
    """Controls that the script binds to the chart's parameters and to the table of candidates."""
    values = chart.spec["data"]["values"]
    schemes = sorted({value["scheme"] for value in values})
    remats = sorted({value["remat"] for value in values})
    controls = [
        choice("scheme", label="Scheme", options=[("all", "all"), *((name, name) for name in schemes)]),
        choice("remat", label="Remat", options=[("all", "all"), *((name, name) for name in remats)]),
        choice("fitting", label="Show", options=[("all", "everything"), ("yes", "only what fits")]),
    ]
    return element("div", *controls, attributes={"class": "controls", "role": "group", "aria-label": "Filters"})


def _document(title: str, main: str) -> str:
    assets = resources.files("planner.report").joinpath("assets")
    style = assets.joinpath("report.css").read_text(encoding="utf-8")
    script = assets.joinpath("report.js").read_text(encoding="utf-8")
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><meta name="color-scheme" content="light dark">'
        f'<link rel="icon" href="data:,"><title>{text(title)}: lcplan</title><style>{style}</style>'
    )
    foot = element("footer", text(f"lcplan {__version__}. Every figure carries its rung: modelled, compiled or timed."))
    skip = '<a class="skip" href="#main">Skip to the answer</a>'
    scripts = f"<script>{_inline(javascript())}</script><script>{script}</script>"
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{skip}{main}{foot}{scripts}</body></html>\n'


def _inline(script: str) -> str:
    """A script inside HTML must not hold its own end tag."""
    return script.replace("</script", "<\\/script")


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
