"""Errors and their summaries: signed errors of one quantity, ranks, and how a verdict on fitting counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.validate.sources.table import Quantity

FEWEST_RANKED = 3


def errors(measured: Mapping[Quantity, float | bool], predicted: Mapping[Any, float | bool]) -> dict[Quantity, float]:
    """Signed error of each quantity that was measured and predicted: ``predicted / measured - 1``.

    For ``fits``: 0 where the verdict is right, 1 where a run out of memory was predicted to fit, -1 where a run that ran
    was predicted not to fit.
    """
    found: dict[Quantity, float] = {}
    for name, value in measured.items():
        if name not in predicted:
            continue
        guess = predicted[name]
        found[name] = float(int(guess) - int(value)) if name == "fits" else float(guess) / float(value) - 1.0
    return found


BAND = 0.1
"""Verdicts on fitting are hard within this of the budget."""


@dataclass(frozen=True)
class Verdicts:
    """Verdicts on fitting where the predicted need is further than ``BAND`` from the budget."""

    outside_band_rows: int
    outside_band_right: int
    outside_band_unsafe: int
    """Wrong verdicts on runs that were predicted to fit and ran out of memory."""
    outside_band_contradicted: int = 0
    """Unsafe verdicts that a row of their own source contradicts (planner.validate.scoring.contradictions)."""


def verdicts(signed: Sequence[float], budget_ratios: Sequence[float], contradicted: Sequence[bool]) -> Verdicts:
    """Count verdicts (errors as in ``errors``) by the share of its budget that each row needs."""
    rows = zip(signed, budget_ratios, contradicted, strict=True)
    far = [(error, contradiction) for error, ratio, contradiction in rows if abs(ratio - 1.0) > BAND]
    unsafe = [contradiction for error, contradiction in far if error > 0]
    return Verdicts(len(far), sum(error == 0 for error, _ in far), len(unsafe), sum(unsafe))


@dataclass(frozen=True)
class Summary:
    """Errors of one quantity over the rows of a table."""

    rows: int
    mean_abs_error_ratio: float
    bias_ratio: float
    worst_error_ratio: float
    leave_one_out_ratio: float | None
    rank_correlation: float | None
    outside_band: Verdicts | None = None

    def to_json(self) -> dict[str, Any]:
        """The ``summary`` entry, as in DESIGN; only ``fits`` has verdicts outside the band."""
        plain = {name: value for name, value in vars(self).items() if name != "outside_band"}
        return plain | (vars(self.outside_band) if self.outside_band is not None else {})


def summary(signed: Sequence[float], *, ranks: float | None, leave_one_out: float | None = None) -> Summary:
    """The summary of signed errors; ``ranks`` is their rows' rank correlation."""
    values = np.asarray(signed, dtype=np.float64)
    return Summary(
        rows=len(values),
        mean_abs_error_ratio=float(np.abs(values).mean()),
        bias_ratio=float(values.mean()),
        worst_error_ratio=float(values[np.argmax(np.abs(values))]),
        leave_one_out_ratio=leave_one_out,
        rank_correlation=ranks,
    )


def rank_correlation(measured: Sequence[float], predicted: Sequence[float]) -> float | None:
    """Spearman's rank correlation; None for fewer than three rows or where all of one side are equal.

    >>> rank_correlation([1.0, 2.0, 3.0], [10.0, 40.0, 90.0])
    1.0
    """
    if len(measured) < FEWEST_RANKED or min(len(set(measured)), len(set(predicted))) == 1:
        return None
    from scipy.stats import spearmanr

    return round(float(spearmanr(measured, predicted).statistic), 12)
