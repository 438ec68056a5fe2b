"""The page's charts as files: PNG for slides, SVG for papers."""

from __future__ import annotations

from pathlib import Path

from lcplan.formats.errors import StageFailedError
from planner.report.charts.vega import png, svg
from planner.report.html.page import Report


def write_plots(report: Report, folder: Path) -> tuple[Path, ...]:
    """Every chart twice, named as in the page; the files written.

    Raises
    ------
    StageFailedError
        The extra is missing, or the folder cannot be written.
    """
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for chart in report.charts:
            spec = chart.alone()
            picture, drawing = folder / f"{chart.name}.png", folder / f"{chart.name}.svg"
            picture.write_bytes(png(spec))
            drawing.write_text(svg(spec), encoding="utf-8")
            written += [picture, drawing]
    except OSError as error:
        raise StageFailedError(f"{folder}: {error.strerror or error}; choose another folder with --plots") from None
    return tuple(written)
