"""Calibration: errors of all tables by kind, and how often a half-width covers rows that are left out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from cost_models.uncertainty.errors import HalfWidth, PublishedErrors, RowError
from planner.validate.scoring.kinds import compared
from planner.validate.scoring.result import TableResult


def row_errors(results: Sequence[TableResult]) -> Iterator[RowError]:
    """Errors of every modelled row."""
    for result in results:
        for row in result.rows:
            if row.placed is not None:
                for quantity, error in compared(row.error_ratio):
                    yield RowError(result.table.name, row.id, row.placed.about(quantity), error)


@dataclass(frozen=True)
class Cover:
    """Rows of one kind with the half-widths that all other rows give them; errors and half-widths as ratios."""

    label: str
    rows: int
    tables: int
    mean_error: float
    median_half_width: float
    covered: float
    """Share of the rows whose measured value is within the half-width."""
    covered_without_table: float
    """The same under half-widths that all other tables give."""


def covers(rows: Sequence[RowError], errors: PublishedErrors) -> tuple[Cover, ...]:
    """The cover of each kind, and of all rows together."""
    found = [
        (
            row,
            errors.half_width(row.about, without=(row.table, row.row)),
            errors.half_width(row.about, without=(row.table, None)),
        )
        for row in rows
    ]
    kinds = sorted({row.about.kind for row in rows})
    groups = [(kind.label, [one for one in found if one[0].about.kind == kind]) for kind in kinds]
    return tuple(_cover(label, members) for label, members in (*groups, ("all", found)))


def _cover(label: str, members: Sequence[tuple[RowError, HalfWidth, HalfWidth]]) -> Cover:
    return Cover(
        label=label,
        rows=len(members),
        tables=len({row.table for row, _, _ in members}),
        mean_error=fmean(math.expm1(abs(row.error)) for row, _, _ in members),
        median_half_width=median(width.ratio for _, width, _ in members),
        covered=fmean(abs(row.error) <= math.log1p(width.ratio) for row, width, _ in members),
        covered_without_table=fmean(abs(row.error) <= math.log1p(width.ratio) for row, _, width in members),
    )
