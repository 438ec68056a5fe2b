"""The report that a search leaves in its folder by itself, where its packages are installed."""

from __future__ import annotations

from pathlib import Path

from lcplan.formats.errors import LcplanError
from planner.cli.output import stderr_console

FILE = "report.html"


def leave_report(folder: Path, price_usd_per_device_hour: float | None) -> Path | None:
    """Write the folder's report; if that fails, a note on stderr gives the reason and the search still succeeds."""
    from planner.report.charts.vega import WAY_OUT, available

    if not available():
        stderr_console().print(f"note: no {FILE}: {WAY_OUT}", style="dim", highlight=False, soft_wrap=True, markup=False)
        return None
    from planner.report.html.page import Report, write_report
    from planner.run.run_read import read_run

    file = folder / FILE
    try:
        write_report(Report.of(read_run(folder), price_usd_per_device_hour=price_usd_per_device_hour), file)
    except LcplanError as error:
        stderr_console().print(f"note: no {FILE}: {error}", style="yellow", highlight=False, soft_wrap=True, markup=False)
        return None
    return file
