"""``lcplan validate``: predictions compared with published measurements."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from lcplan.formats.errors import BadInputError
from lcplan.formats.textfile import write_text
from planner.cli.options import output_format
from planner.cli.output import print_csv, print_json, print_view
from planner.report.charts.accuracy_pictures import write_pictures
from planner.report.markdown.accuracy import accuracy_page
from planner.report.terminal.validate import tables_view
from planner.request.document import SCHEMA_VERSION
from planner.validate.run import validate
from planner.validate.scoring.result import TableResult
from planner.validate.sources.bundled import find_table, table_names

EPILOG = """\b
Examples:
  lcplan validate
  lcplan validate --table seed-s1-gb200-nvshmem
  lcplan validate --table my-runs.yaml --format json
  lcplan validate --page accuracy.md"""


@click.command("validate", epilog=EPILOG)
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="NAME|FILE",
    help="A bundled table or a file of your own; repeatable. [default: all]",
)
@click.option(
    "--page",
    metavar="FILE",
    help="Write the results of all bundled tables as a Markdown page instead, with its pictures next to it.",
)
@output_format
def command(*, tables: tuple[str, ...], page: str | None, output: str) -> int:
    """Compare the cost model's predictions with published measurements.

    Every row of a table is modelled or has a reason why not. A field that a source leaves open is chosen once per table, shown,
    and counted as fitted. The format of a table's file is in docs/tables.md.
    """
    if page is not None:
        return _write_page(page, tables)
    results = _validate(tables or table_names())
    if output == "json":
        print_json({"schema_version": SCHEMA_VERSION, "tables": [result.to_json() for result in results]})
    elif output == "csv":
        print_csv([row for result in results for row in _flat(result)])
    else:
        print_view(tables_view(results))
    return 0


def _write_page(page: str, tables: tuple[str, ...]) -> int:
    if tables:
        raise BadInputError("--page is of all bundled tables; leave --table out")
    try:
        results = _validate(table_names())
        write_pictures(results, Path(page))
        write_text(page, accuracy_page(results, Path(page).stem))
    except OSError as error:
        raise BadInputError(f"--page {page}: {error.strerror or error}") from None
    return 0


def _validate(names: tuple[str, ...]) -> list[TableResult]:
    results: list[TableResult] = []
    problems: list[str] = []
    for name in names:
        try:
            table, path = find_table(name)
            results.append(validate(table, path.parent))
        except BadInputError as error:
            problems.extend(error.problems)
    if problems:
        raise BadInputError(problems)
    return results


def _flat(result: TableResult) -> Iterator[dict[str, Any]]:
    """Return one line per row and measured quantity."""
    for row in result.rows:
        for name, value in row.measured.items():
            yield {
                "table": result.table.name,
                "row": row.id,
                "status": row.status,
                "quantity": name,
                "measured": value,
                "predicted": row.predicted.get(name),
                "error_ratio": row.error_ratio.get(name),
                "why": row.why,
            }
