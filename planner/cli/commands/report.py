"""``lcplan report``: a run as one self-contained HTML page, and its charts as files."""

from __future__ import annotations

from pathlib import Path

import click

from lcplan.formats.errors import BadInputError, StageFailedError
from planner.cli.options import price_option
from planner.cli.output import print_json, print_view
from planner.run.run_read import read_run

EPILOG = """\b
Examples:
  lcplan report lcplan-runs/llama3-8b-256k-gb200-nvl72-1a2b3c4d
  lcplan report RUN --out report.html --plots figures --price 2.50"""


@click.command("report", epilog=EPILOG, short_help="One self-contained HTML page of a run.")
@click.argument("run", metavar="RUN|PLAN")
@click.option("--out", metavar="FILE", help="The page. [default: report.html in the run's folder]")
@click.option("--plots", metavar="DIR", help="Also write every chart as PNG and SVG into this folder.")
@price_option
@click.option(
    "--format", "output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Output format."
)
def command(run: str, out: str | None, plots: str | None, price: float | None, output: str) -> int:
    """Write RUN as one HTML file that asks no network: the answer, charts with the tables behind them, and the plan.

    RUN is a search's folder or its result.json; PLAN a plan.yaml.
    """
    from planner.report.charts.vega import WAY_OUT, available

    loaded = read_run(run)
    if not available():
        raise StageFailedError(WAY_OUT)
    from planner.report.html.page import Report, write_report
    from planner.report.html.plots import write_plots

    file = Path(out) if out else (loaded.path if loaded.path.is_dir() else loaded.path.parent) / "report.html"
    if file.is_dir():
        raise BadInputError(f"--out {file}: is a folder; give a file, for example {file / 'report.html'}")
    report = Report.of(loaded, price_usd_per_device_hour=price)
    write_report(report, file)
    files = [file, *(write_plots(report, Path(plots)) if plots else ())]
    if output == "json":
        print_json({"schema_version": 1, "files": [str(path) for path in files]})
    else:
        for path in files:
            print_view(str(path))
    return 0
