"""Calibration: errors of all tables by kind, and how often a half-width covers rows whose own table is left out."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import NamedTuple

from cost_models.uncertainty.errors import TableErrors, half_width
from cost_models.uncertainty.kind import Kind, RestsOn
from planner.validate.scoring.kinds import compared
from planner.validate.scoring.result import TableResult


class RowError(NamedTuple):
    """The error of one row's time or memory."""

    table: str
    row: str
    rests: RestsOn
    kind: Kind
    error: float
    """``ln(predicted / measured)``."""


def row_errors(results: Sequence[TableResult]) -> Iterator[RowError]:
    """Errors of every modelled row."""
    for result in results:
        for row in result.rows:
            if row.placed is not None:
                for quantity, error in compared(row.error_ratio):
                    yield RowError(result.table.name, row.id, row.placed.rests, row.placed.kind(quantity), error)


def table_errors(rows: Sequence[RowError]) -> tuple[TableErrors, ...]:
    """Sum the rows up by kind, device and table."""
    groups: dict[tuple[Kind, str, str], list[float]] = defaultdict(list)
    for row in rows:
        groups[row.kind, row.rests.rates, row.table].append(abs(row.error))
    return tuple(
        TableErrors(kind, rates, table, rows=len(found), mean=round(fmean(found), 4), worst=round(max(found), 4))
        for (kind, rates, table), found in sorted(groups.items())
    )


@dataclass(frozen=True)
class Cover:
    """Rows of one kind with the half-widths that all other tables give them; errors and half-widths as ratios."""

    label: str
    rows: int
    tables: int
    mean_error: float
    median_half_width: float
    covered: float
    """Share of the rows whose measured value is within the half-width."""
    unmatched: int
    """Rows of a kind that fewer than two other tables have: they get the largest error of any row."""


def covers(rows: Sequence[RowError], errors: Sequence[TableErrors]) -> tuple[Cover, ...]:
    """The cover of each kind, and of all rows together."""
    widths = [half_width(row.kind, row.rests, errors=errors, without=row.table) for row in rows]
    pairs = list(zip(rows, widths, strict=True))
    kinds = sorted({row.kind for row in rows})
    groups = [(kind.label, [pair for pair in pairs if pair[0].kind == kind]) for kind in kinds]
    found = []
    for label, members in (*groups, ("all", pairs)):
        inside = [abs(row.error) <= math.log1p(width.ratio) for row, width in members]
        found.append(
            Cover(
                label=label,
                rows=len(members),
                tables=len({row.table for row, _ in members}),
                mean_error=fmean(math.expm1(abs(row.error)) for row, _ in members),
                median_half_width=median(width.ratio for _, width in members),
                covered=sum(inside) / len(members),
                unmatched=sum(not width.own for _, width in members),
            )
        )
    return tuple(found)
