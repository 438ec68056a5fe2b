"""The accuracy page's section on half-widths: the ± of every time and memory, and how often it covers the measured value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cost_models.uncertainty.errors import FACTOR, FEWEST_ROWS, FEWEST_TABLES, TableErrors, published_errors
from planner.report.markdown.table import table
from planner.report.view.validation import percent
from planner.validate.scoring.calibration import Cover, covers, row_errors
from planner.validate.scoring.result import TableResult

TEXT = f"""## Half-widths

Every modelled time and memory has a half-width, shown as ±.
The measured value is then expected between the figure over 1 + ± and the figure times 1 + ±.

The half-width comes from the errors of published rows of the same *kind*, in `cost_models/data/table_errors.json`.
`python benchmarks/table_errors.py` writes that file, and a test fails when it is stale.

* The error of a row is the absolute logarithm of predicted over measured, of its time and of its memory.
* The half-width is {FACTOR:g} times the mean error, each table counted once.
* It takes rows on the rates of the same device, if at least {FEWEST_TABLES} tables and {FEWEST_ROWS} rows have these.
  Otherwise it takes all rows of the kind.
* Time on a device whose rates are not measured, and that no row is on, gets the mean error of the worst table of the kind.
* A kind that only one table has gets that table's largest error.
* A kind that no table has gets the largest error of any row.
* A search and an estimate state the origin of each half-width.

Memory that the target's own compiler states has no half-width.
Of a timing, the half-width is the spread of its samples.

In the next table, each row of a table gets the half-width that all *other* tables give it, so that no row vouches for itself.
*Unmatched* counts rows of a kind that no other table has.
"""


def half_widths(results: Sequence[TableResult]) -> Iterator[str]:
    """The section's lines."""
    yield TEXT
    errors = published_errors()
    headings = ("kind", "rows", "tables", "mean error", "median ±", "± over mean", "covered", "unmatched")
    found = covers(list(row_errors(results)), errors)
    yield from table(headings, map(_cells, found), right=range(1, 8))
    own = [entry for entry in errors if entry.kind.program == "lcplan"]
    if own:
        yield from _compiled(own)


def _cells(cover: Cover) -> tuple[object, ...]:
    return (
        cover.label,
        cover.rows,
        cover.tables,
        percent(cover.mean_error),
        percent(cover.median_half_width),
        f"{cover.median_half_width / cover.mean_error:.1f}",
        percent(cover.covered),
        cover.unmatched,
    )


def _compiled(own: Sequence[TableErrors]) -> Iterator[str]:
    """The errors of the modelled memory of lcplan's own step, of which compiles are the measurements."""
    yield "No published table has the memory of lcplan's own train step."
    yield "Its half-width comes from steps that were compiled for the target, which the memory model's tests also use.\n"
    rows = [(entry.rates, entry.rows, percent(entry.mean), percent(entry.worst)) for entry in own]
    yield from table(("compiled for", "steps", "mean error", "worst"), rows, right=(1, 2, 3))
