"""Figures from samples: medians, spreads, and the constants of a cost model that is linear in them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Timing:
    """Samples of one probe [s per call]."""

    samples: tuple[float, ...]

    @property
    def median_s(self) -> float:
        """The middle one."""
        return statistics.median(self.samples)

    @property
    def spread_ratio(self) -> float:
        """Distance of the quartiles over the median: one sample that the system disturbed does not count."""
        low, high = np.percentile(self.samples, [25, 75])
        return float((high - low) / self.median_s)


def non_negative_fit(terms: Floats, seconds: Sequence[float]) -> Floats:
    """Constants of ``seconds = terms @ constants``, all at least zero, with the least squared relative error of the times.

    Parameters
    ----------
    terms
        One row a timing, one column a constant.
    seconds
        Times, above zero [s].

    Examples
    --------
    >>> non_negative_fit(np.array([[1.0, 1.0], [1.0, 3.0]]), [3.0, 7.0]).round(6).tolist()
    [1.0, 2.0]
    """
    measured = np.asarray(seconds, dtype=np.float64)
    scaled, ones = terms / measured[:, None], np.ones(len(measured))
    best, least = np.zeros(terms.shape[1]), np.inf
    for count in range(1, terms.shape[1] + 1):
        for columns in combinations(range(terms.shape[1]), count):
            found = np.linalg.lstsq(scaled[:, columns], ones, rcond=None)[0]
            wrong = float(np.sum((scaled[:, columns] @ found - 1.0) ** 2))
            if (found >= 0).all() and wrong < least * (1 - 1e-9):
                best, least = np.zeros(terms.shape[1]), wrong
                best[list(columns)] = found
    return best
