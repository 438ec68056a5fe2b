"""The accuracy page's section on half-widths: the ± of every time and memory, and how often it covers the measured value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from cost_models.uncertainty.errors import (
    COVERED,
    FAR,
    NEAREST,
    OTHER_DEVICE,
    OTHER_PROGRAM,
    TENFOLD,
    RowError,
    published_errors,
)
from planner.report.markdown.table import table
from planner.report.view.validation import percent
from planner.validate.scoring.calibration import Cover, covers, row_errors
from planner.validate.scoring.result import TableResult

_RANK = round(COVERED * (NEAREST + 1))

TEXT = f"""## Half-widths

Every modelled time and memory has a half-width, shown as ±.
The measured value is then expected between the figure over 1 + ± and the figure times 1 + ±.

The half-width comes from the errors of published rows of the same *kind*, in `cost_models/data/table_errors.json`.
`python benchmarks/table_errors.py` writes that file, and a test fails when it is stale.

* The error of a row is the absolute logarithm of predicted over measured, of its time and of its memory.
* Two predictions are similar if the same parts have the same shares of them.
  Their distance is half the sum of the differences of the shares, from 0 to 1.
  Rates of another device add {OTHER_DEVICE:g}, and a tenfold time or memory {TENFOLD:g}.
  Another program (XLA or PyTorch) adds {OTHER_PROGRAM:g}.
* The half-width is the {_RANK}th smallest error of the {NEAREST} most similar rows.
  The next error is within it with a probability of {_RANK} in {NEAREST + 1}, if it is drawn as these were ([split conformal prediction](https://arxiv.org/abs/1604.04173)).
* Memory of lcplan's own train step takes all compiled steps of the device.
  Where a device has fewer than {NEAREST}, it takes those of all devices.
* The half-width is the largest error of these rows where the distance of the last one is at least {FAR:g}.
  So it is for a time on a device that no row is on.
* A search and an estimate state the origin of each half-width.

Memory that the target's own compiler states has no half-width.
Of a timing, the half-width is the spread of its samples.

In the next table, each row gets the half-width that all *other* rows give it, so that no row vouches for itself.
*Without its table* is the share that is covered if all rows of the same table are left out.
Rows of one table share a machine and a trainer, which a user's run need not.
Kinds with few rows have uncertain shares.
"""


def half_widths(results: Sequence[TableResult]) -> Iterator[str]:
    """The section's lines."""
    yield TEXT
    errors = published_errors()
    headings = ("kind", "rows", "tables", "mean error", "median ±", "± over mean", "covered", "without its table")
    found = covers(list(row_errors(results)), errors)
    yield from table(headings, map(_cells, found), right=range(1, 8))
    yield from _compiled([row for row in errors.rows if row.about.kind.program == "lcplan"])


def _cells(cover: Cover) -> tuple[object, ...]:
    return (
        cover.label,
        cover.rows,
        cover.tables,
        percent(cover.mean_error),
        percent(cover.median_half_width),
        f"{cover.median_half_width / cover.mean_error:.1f}",
        percent(cover.covered),
        percent(cover.covered_without_table),
    )


def _compiled(own: Sequence[RowError]) -> Iterator[str]:
    """The errors of the modelled memory of lcplan's own step, of which compiles are the measurements."""
    yield "No published table has the memory of lcplan's own train step."
    yield "Its half-width comes from steps that were compiled for the target, which the memory model's tests also use.\n"
    off = {name: [abs(row.error) for row in own if row.about.rates == name] for name in sorted({r.about.rates for r in own})}
    rows = [(name, len(found), percent(fmean(found)), percent(max(found))) for name, found in off.items()]
    yield from table(("compiled for", "steps", "mean error", "worst"), rows, right=(1, 2, 3))
