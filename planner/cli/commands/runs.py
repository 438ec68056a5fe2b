"""``lcplan runs``: the runs that searches left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from lcplan.formats.errors import BadInputError, LcplanError
from planner.cli.options import output_format
from planner.cli.output import print_csv, print_json, print_view
from planner.report.terminal.tables import FittedTable
from planner.request.document import SCHEMA_VERSION
from planner.run.run_folder import DEFAULT_PARENT


@click.command("runs")
@click.argument("folder", default=".", type=click.Path(exists=True, file_okay=False))
@output_format
def command(folder: str, output: str) -> int:
    """List the runs in FOLDER and in its lcplan-runs, the newest first: request, evidence and winner of each.

    A run that ended before its answer is listed as resumable: the same search continues it.
    """
    rows = [_row(path) for path in sorted(_runs(Path(folder)), key=_changed, reverse=True)]
    if output == "json":
        print_json({"schema_version": SCHEMA_VERSION, "runs": rows})
    elif output == "csv":
        print_csv(rows)
    else:
        print_view(_table(rows) if rows else f"no runs in {folder} or {Path(folder) / DEFAULT_PARENT}")
    return 0


def _runs(folder: Path) -> Iterator[Path]:
    for parent in (folder, folder / DEFAULT_PARENT):
        try:
            yield from (one for one in parent.iterdir() if (one / "request.json").is_file())
        except FileNotFoundError:
            continue
        except OSError as error:
            raise BadInputError(f"{parent}: {error.strerror}") from None


def _changed(run: Path) -> float:
    return max(file.stat().st_mtime for file in (run / "request.json", run / "result.json") if file.exists())


def _row(run: Path) -> dict[str, Any]:
    """The run's figures; ``outcome`` names the fault of a run that cannot be read."""
    from planner.report.view.performance import Performance
    from planner.run.run_read import read_run

    row: dict[str, Any] = dict.fromkeys(("run", "model", "seq_len", "hardware", "strategy", "step_s", "rung", "outcome"))
    row["run"] = str(run)
    if not (run / "result.json").exists():
        return row | {"outcome": "resumable"}
    try:
        read = read_run(run)
    except LcplanError as error:
        return row | {"outcome": str(error).partition(": ")[2]}
    request, winner = read.request, read.winner
    row |= {"model": request.model.name, "seq_len": request.workload.seq_len, "hardware": request.hardware.name}
    if winner is None:
        return row | {"outcome": "nothing fits"}
    rung = Performance.of(winner).memory_rung
    return row | {"strategy": winner.strategy.label, "step_s": winner.best.step_s, "rung": rung, "outcome": "fits"}


def _table(rows: list[dict[str, Any]]) -> FittedTable:
    from lcplan.formats.units import format_seconds, format_tokens

    table = FittedTable()
    table.add_column("run")
    for name, leaves in (("model", 3), ("seq", 2), ("hardware", 4)):
        table.add_column(name, no_wrap=True, leaves=leaves)
    table.add_column("step", no_wrap=True, justify="right")
    table.add_column("evidence", no_wrap=True, leaves=1)
    table.add_column("winner")
    for row in rows:
        known = row["model"] is not None
        seq = format_tokens(row["seq_len"]) if known else ""
        step = format_seconds(row["step_s"]) if row["step_s"] is not None else "-"
        last = row["strategy"] or row["outcome"]
        table.add_row(row["run"], row["model"] or "", seq, row["hardware"] or "", step, row["rung"] or "", last)
    return table
