"""Results as a notebook shows them: one line of text, the command's own output as HTML, and the page's charts.

Views and charts load when they are asked for.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import hint
from planner.run.result import SearchResult
from planner.what_if.result import WhatIf

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDTH = 120
"""Columns of the text in a notebook."""
MIME = "application/vnd.vegalite.v6+json"
_PRE = '<pre style="white-space:pre;overflow-x:auto;line-height:1.3;font-family:monospace">{code}</pre>'


def as_html(view: RenderableType) -> str:
    """Return a terminal's view as HTML with its styles inline."""
    from rich.console import Console

    console = Console(record=True, width=WIDTH, file=io.StringIO(), highlight=False, markup=False, emoji=False)
    console.print(view)
    return console.export_html(inline_styles=True, code_format=_PRE)


@dataclass(frozen=True)
class Plot:
    """A chart of the report; notebooks draw it, and ``save`` writes it as PNG or SVG."""

    name: str
    spec: dict[str, Any]
    """The Vega-Lite specification."""

    def __repr__(self) -> str:
        """Return the name and the title."""
        return f"Plot({self.name}: {self.spec.get('title', '')})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        from planner.report.charts.vega import svg

        return {MIME: self.spec, "image/svg+xml": svg(self.spec), "text/plain": repr(self)}

    def save(self, path: str | Path) -> None:
        """Write the chart; the ending of ``path`` is ``.png`` or ``.svg``.

        Raises
        ------
        BadInputError
            Another ending.
        """
        from planner.report.charts.vega import png, svg

        file = Path(path)
        if file.suffix not in {".png", ".svg"}:
            raise BadInputError(f"{file}: a plot is saved as .png or .svg")
        file.write_bytes(png(self.spec) if file.suffix == ".png" else svg(self.spec).encode())


@dataclass(frozen=True, repr=False)
class Found(SearchResult):
    """The result of ``lcplan.search``."""

    @classmethod
    def of(cls, result: SearchResult) -> Found:
        """Return the same result, with its display."""
        return cls(**{one.name: getattr(result, one.name) for one in fields(SearchResult)})

    def __repr__(self) -> str:
        """Return the winner with its figures in one line."""
        from planner.report.view.performance import short

        words = short(self.winner, self.request) if self.winner is not None else "nothing fits"
        return f"<search of {self.request.model.name} on {self.request.hardware.name}: {words}>"

    def _repr_html_(self) -> str:
        from planner.report.terminal.search import search_view

        return as_html(search_view(self))

    @property
    def plots(self) -> tuple[str, ...]:
        """Names of the charts that ``plot`` draws."""
        return tuple(self._charts())

    def plot(self, name: str = "pareto") -> Plot:
        """Return one chart of the report: ``plots`` lists the names.

        Raises
        ------
        BadInputError
            No chart of this name, or a result without candidates.
        """
        charts = self._charts()
        if name not in charts:
            raise BadInputError(f"plot: no chart {name!r}{hint(name, tuple(charts))}")
        return Plot(name, charts[name].alone())

    def _charts(self) -> dict[str, Any]:
        from planner.report.html.page import Report
        from planner.run.run_read import Run

        counts, reasons = self.counts, self.reasons
        nearest = self.nearest_miss
        run = Run(Path("result"), self.request, self.candidates, counts, reasons, nearest, (), self.notes, None, self.tuning)
        return {chart.name: chart for chart in Report.of(run).charts}


@dataclass(frozen=True, repr=False)
class Answered(WhatIf):
    """The result of ``lcplan.whatif``."""

    @classmethod
    def of(cls, result: WhatIf) -> Answered:
        """Return the same result, with its display."""
        return cls(**{one.name: getattr(result, one.name) for one in fields(WhatIf)})

    def __repr__(self) -> str:
        """Return the question and its answer in one line."""
        if self.question == "sweep" or self.answer is None:
            words = f"{len(self.points)} points"
        else:
            words = "nothing fits" if self.answer.answered is None else f"{self.answer.answered:,}"
        return f"<{self.question} of {self.request.model.name} on {self.request.hardware.name}: {words}>"

    def _repr_html_(self) -> str:
        from planner.report.terminal.whatif import whatif_view

        return as_html(whatif_view(self))
