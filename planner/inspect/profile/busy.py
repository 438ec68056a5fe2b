"""Busy time: each moment of a device's step, given to the work that runs in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Busy:
    """Seconds of one window. ``taken`` sums with ``idle`` to the window; ``total`` counts hidden time too."""

    taken_s: NDArray[np.float64]
    """Time of each class when nothing of a lower rank ran; classes of one rank share a moment."""
    total_s: NDArray[np.float64]
    """Time in which at least one event of the class ran."""
    idle_s: float


def busy_time(
    spans: NDArray[np.float64], classes: NDArray[np.int64], *, ranks: Sequence[int], window: tuple[float, float]
) -> Busy:
    """Give each moment of ``window`` to the classes that are active in it, those of the lowest rank first.

    Parameters
    ----------
    spans
        Start and end of each event [s]; shape ``[n, 2]``.
    classes
        Class of each event; shape ``[n]``.
    ranks
        Rank of each class: compute 0, communication 1, which is exposed where no compute runs, and so on.
    window
        Start and end of the step [s].

    Examples
    --------
    A product from 0 to 2 s, and a collective from 1 to 4 s, in a step of 5 s:

    >>> spans = np.array([[0.0, 2.0], [1.0, 4.0]])
    >>> busy = busy_time(spans, np.array([0, 1]), ranks=(0, 1), window=(0.0, 5.0))
    >>> busy.taken_s.tolist(), busy.total_s.tolist(), busy.idle_s
    ([2.0, 2.0], [2.0, 3.0], 1.0)
    """
    clipped = np.clip(spans, *window)
    moments = np.unique(np.concatenate([clipped.ravel(), np.array(window)]))
    lengths = np.diff(moments)
    count = len(ranks)
    steps = np.zeros((count, len(moments)))
    np.add.at(steps, (classes, np.searchsorted(moments, clipped[:, 0])), 1.0)
    np.add.at(steps, (classes, np.searchsorted(moments, clipped[:, 1])), -1.0)
    active = np.cumsum(steps, axis=1)[:, :-1]
    taken, left = np.zeros(count), np.ones(len(lengths), dtype=bool)
    for rank in sorted(set(ranks)):
        of_rank = np.array([one == rank for one in ranks])[:, None] * active
        running = of_rank.sum(axis=0)
        share = np.divide(of_rank, running, out=np.zeros_like(of_rank), where=running > 0)
        taken += (share * lengths * left).sum(axis=1)
        left &= running == 0
    return Busy(taken, ((active > 0) * lengths).sum(axis=1), float(lengths[left].sum()))
