"""Half-widths of predictions: twice the mean error of published rows of the same kind, each table counted once.

The error of a row is ``|ln(predicted / measured)|``. data/table_errors.json has its mean and its largest value for each table,
kind and device; ``benchmarks/table_errors.py`` writes it. docs/accuracy.md shows how often the half-width covers the measured
value of rows whose own table is left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from cost_models.uncertainty.kind import Kind, RestsOn

FACTOR = 2.0
"""Half-width over the mean error. Of errors with a normal distribution about 0, twice their mean covers 89 %."""

FEWEST_TABLES, FEWEST_ROWS = 2, 5
"""Sources and rows that a mean error needs: errors of one source share its machine and its trainer."""


@dataclass(frozen=True)
class TableErrors:
    """Errors of one table's rows of one kind on the rates of one device: their mean and the largest.

    Source: ``lcplan validate``.
    """

    kind: Kind
    rates: str
    table: str
    rows: int
    mean: float
    worst: float


@dataclass(frozen=True)
class HalfWidth:
    """How far a prediction may be off: the measured value is within ``predicted / (1 + ratio)`` and ``predicted (1 + ratio)``.

    ``basis`` is the origin of the figure in words; ``own`` is whether published rows of the kind exist.

    Source: ``half_width``.
    """

    ratio: float
    basis: str
    own: bool = True


@lru_cache(maxsize=1)
def published_errors() -> tuple[TableErrors, ...]:
    """Return the errors of the bundled tables.

    Parameters
    ----------
    None.

    Returns
    -------
    tuple of TableErrors
        By kind, device and table [ratio].

    Notes
    -----
    Source: data/table_errors.json.
    """
    text = resources.files("cost_models").joinpath("data/table_errors.json").read_text(encoding="utf-8")
    return tuple(TableErrors(Kind(*entry.pop("kind")), **entry) for entry in json.loads(text))


def half_width(kind: Kind, rests: RestsOn, *, errors: Sequence[TableErrors], without: str = "") -> HalfWidth:
    """Return how far a prediction of ``kind`` may be off.

    ``exp(2 m) - 1`` with m the mean over tables of their mean errors: over rows that rest on the same device's rates where two
    tables have them, else over all rows of the kind. Time on rates that were neither measured nor compared with any row has the
    mean error of the worst table. Of a kind in one table it is that table's largest error, and of a kind in no table the
    largest error of any row.

    Parameters
    ----------
    kind : Kind
        Kind of the prediction.
    rests : RestsOn
        Program and rates that it rests on.
    errors : sequence of TableErrors
        Errors of published rows.
    without : str
        Name of a table to leave out.

    Returns
    -------
    HalfWidth
        Half-width [ratio].

    Notes
    -----
    Source: data/table_errors.json; the bar of docs/accuracy.md.
    """
    others = [entry for entry in errors if entry.table != without and entry.kind.quantity == kind.quantity]
    alike = [entry for entry in others if entry.kind == kind]
    here = [entry for entry in alike if entry.rates == rests.rates]
    if _enough(here):
        return HalfWidth(_ratio(_means(here)), f"{_counted(here)}: {kind.label}, on rates of {rests.rates}")
    if sum(entry.rows for entry in alike) >= FEWEST_ROWS and not _enough(alike):
        words = f"largest error of {_counted(alike)}: {kind.label}"
        return HalfWidth(math.expm1(max(entry.worst for entry in alike)), words)
    if not _enough(alike):
        calls = kind.program == "call"
        worst = max((entry.worst for entry in others if (entry.kind.program == "call") == calls), default=math.inf)
        words = f"no published row for {kind.label}: the largest error of any other"
        return HalfWidth(math.expm1(worst), words, own=False)
    if kind.quantity == "time" and not rests.measured and not any(entry.rates == rests.rates for entry in others):
        worst = max(_means(alike))
        words = f"no published row on {rests.rates}, whose rates are not measured: the worst table of {kind.label}"
        return HalfWidth(_ratio([worst]), words, own=False)
    return HalfWidth(_ratio(_means(alike)), f"{_counted(alike)}: {kind.label}, on all devices")


@lru_cache(maxsize=256)
def published_half_width(kind: Kind, rests: RestsOn) -> HalfWidth:
    """Return the half-width of a prediction, from the errors of all bundled tables.

    Parameters
    ----------
    kind : Kind
        Kind of the prediction.
    rests : RestsOn
        Program and rates that it rests on.

    Returns
    -------
    HalfWidth
        Half-width [ratio].

    Notes
    -----
    Source: ``half_width``.
    """
    return half_width(kind, rests, errors=published_errors())


def _enough(entries: Sequence[TableErrors]) -> bool:
    return len({entry.table for entry in entries}) >= FEWEST_TABLES and sum(entry.rows for entry in entries) >= FEWEST_ROWS


def _means(entries: Sequence[TableErrors]) -> list[float]:
    """Mean error of each table over its rows."""
    found = []
    for table in dict.fromkeys(entry.table for entry in entries):
        own = [entry for entry in entries if entry.table == table]
        found.append(sum(entry.mean * entry.rows for entry in own) / sum(entry.rows for entry in own))
    return found


def _ratio(means: Sequence[float]) -> float:
    return math.expm1(FACTOR * sum(means) / len(means))


def _counted(entries: Sequence[TableErrors]) -> str:
    tables = len({entry.table for entry in entries})
    return f"{sum(entry.rows for entry in entries)} rows of {tables} table{'s' * (tables > 1)}"
