"""Half-widths of predictions: the errors within which nine in ten of the most similar published rows stay.

The error of a row is ``|ln(predicted / measured)|``. data/table_errors.json has one for each modelled time and memory, with its
device and the shares of its parts; ``benchmarks/table_errors.py`` writes it. docs/accuracy.md shows how often the half-width
covers the measured value of rows that are left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_models.uncertainty.kind import Kind, PredictionFacts

NEAREST = 19
"""Rows that decide a half-width, by nearness. Of n errors and one to come, each order is equally likely, so that the k-th of n
covers the next with probability k / (n + 1): the 18th of 19 covers 18 / 20 = 90 %
(split conformal prediction, arXiv:1604.04173)."""

COVERED = 0.9
"""Share of measured values that a half-width is to cover."""

OTHER_DEVICE, OTHER_PROGRAM, TENFOLD, FAR = 0.05, 0.5, 0.1, 0.5
"""Distance between two predictions: half the sum of the differences of their parts' shares [0 to 1], plus these for rates of
another device, for another program, and for a whole ten times as large. From ``FAR`` on, rows are no evidence. The figures
hardly matter: 0.05 to 0.2 for the first and 0.05 to 0.3 for the third cover 90 to 91 % of the published rows."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class RowError:
    """The error of one published row's time or memory: ``ln(predicted / measured)``, and the facts of its prediction.

    Source: ``lcplan validate``.
    """

    table: str
    row: str
    about: PredictionFacts
    error: float


@dataclass(frozen=True)
class HalfWidth:
    """How far a prediction may be off: the measured value is within ``predicted / (1 + ratio)`` and ``predicted (1 + ratio)``.

    ``basis`` is the origin of the figure in words; ``own`` is whether published rows are near.

    Source: ``PublishedErrors.half_width``.
    """

    ratio: float
    basis: str
    own: bool = True


class PublishedErrors:
    """Errors of published rows as columns, and the half-widths that follow from them.

    Source: data/table_errors.json.
    """

    def __init__(self, rows: Sequence[RowError]) -> None:
        self.rows = tuple(rows)
        self._error = np.abs(np.array([row.error for row in rows], dtype=np.float64))
        self._table, self._row, self._rates, self._subject, self._program = (
            np.array(column) for column in zip(*map(_names, rows), strict=True)
        )
        names = sorted({name for row in rows for name in row.about.parts})
        self._columns = {name: index for index, name in enumerate(names)}
        self._parts = np.array([self._shares(row.about) for row in rows])
        self._whole = np.array([math.log10(row.about.whole or 1.0) for row in rows])

    def half_width(self, about: PredictionFacts, *, without: tuple[str, str | None] | None = None) -> HalfWidth:
        """Return how far a prediction may be off: of the ``NEAREST`` rows, and all as near as the last, 90 % stay within it.

        Where no row is on the device of a time, or the last is ``FAR``, it is the largest of their errors. ``without`` leaves
        out one row, or with None a whole table.
        """
        usable = self._subject == _subject(about.kind)
        if about.whole is None:
            usable &= self._program == about.kind.program
        if without is not None:
            usable &= ~((self._table == without[0]) & ((self._row == without[1]) | (without[1] is None)))
        where = np.flatnonzero(usable)
        if not len(where):
            return HalfWidth(math.inf, f"no published row for {about.kind.label}", own=False)
        distance = self._distances(about, where)
        last = np.partition(distance, min(NEAREST, len(where)) - 1)[min(NEAREST, len(where)) - 1]
        chosen = where[distance <= last + 1e-12]
        known = about.kind.quantity == "memory" or bool(np.any(self._rates[where] == about.rates))
        own = known and last < FAR and len(chosen) >= NEAREST
        errors = np.sort(self._error[chosen])
        at = math.ceil(COVERED * (len(errors) + 1) - 1e-9) - 1 if own else len(errors) - 1
        return HalfWidth(math.expm1(float(errors[at])), self._basis(about, chosen, own=own), own)

    def _distances(self, about: PredictionFacts, where: NDArray[np.intp]) -> Numbers:
        away = OTHER_DEVICE * (self._rates[where] != about.rates) + OTHER_PROGRAM * (
            _runtime(self._program[where]) != _runtime(np.array(about.kind.program))
        )
        if about.whole is None:
            return np.asarray(away, dtype=np.float64)
        size = TENFOLD * np.abs(self._whole[where] - math.log10(about.whole))
        return np.asarray(away + size + np.abs(self._parts[where] - self._shares(about)).sum(axis=1) / 2.0)

    def _shares(self, about: PredictionFacts) -> Numbers:
        """Shares in the order of the columns; the last one sums up the parts that no row has."""
        found = np.zeros(len(self._columns) + 1)
        for name, share in about.parts.items():
            found[self._columns.get(name, -1)] += share
        return found

    def _basis(self, about: PredictionFacts, chosen: NDArray[np.intp], *, own: bool) -> str:
        tables = len(set(self._table[chosen]))
        last = f"of {tables} table{'s' * (tables > 1)}: {about.kind.label}"
        if own:
            return f"90% of the {len(chosen)} most similar published rows, {last}"
        return f"no published row is similar: the largest error of the {len(chosen)} nearest, {last}"


def _subject(kind: Kind) -> str:
    """Rows that can be near each other: memory, time of single calls, and time of steps."""
    return "memory" if kind.quantity == "memory" else "call" if kind.program == "call" else "step"


def _names(row: RowError) -> tuple[str, str, str, str, str]:
    return row.table, row.row, row.about.rates, _subject(row.about.kind), row.about.kind.program


def _runtime(program: NDArray[np.str_]) -> NDArray[np.bool_]:
    """Whether each program runs on PyTorch; lcplan's own steps are XLA programs."""
    return program == "torch"


@lru_cache(maxsize=1)
def published_errors() -> PublishedErrors:
    """Return the errors of the bundled tables.

    Parameters
    ----------
    None.

    Returns
    -------
    PublishedErrors
        One error for each row and quantity [ratio].

    Notes
    -----
    Source: data/table_errors.json.
    """
    text = resources.files("cost_models").joinpath("data/table_errors.json").read_text(encoding="utf-8")
    found = json.loads(text)
    return PublishedErrors([_read(entry) for entry in found])


def published_half_width(about: PredictionFacts) -> HalfWidth:
    """Return the half-width of a prediction, from the errors of all bundled tables.

    Parameters
    ----------
    about : PredictionFacts
        Facts of the prediction.

    Returns
    -------
    HalfWidth
        Half-width [ratio].

    Notes
    -----
    Source: ``PublishedErrors.half_width``.
    """
    return published_errors().half_width(about)


def _read(entry: dict[str, Any]) -> RowError:
    about = PredictionFacts(Kind(*entry["kind"]), entry["rates"], entry["parts"], entry["whole"])
    return RowError(entry["table"], entry["row"], about, entry["error"])
