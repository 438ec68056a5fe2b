"""A page of charts and tables in one file: no request to anywhere, and the tables are readable without its script."""

from __future__ import annotations

from pathlib import Path

from lcplan.formats.errors import StageFailedError
from lcplan.formats.textfile import write_text
from planner.report.charts.vega import require
from planner.report.view.chart_page import ChartPage


def write_page(page: ChartPage, file: Path) -> None:
    """Write the page, all or nothing.

    Raises
    ------
    StageFailedError
        The report's packages are missing, or the file cannot be written.
    """
    require()
    from planner.report.html.template import render_charts

    text = render_charts(page)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, text)
    except OSError as error:
        raise StageFailedError(f"{file}: {error.strerror or error}; choose another file") from None
