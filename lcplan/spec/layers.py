"""Layers of more than one kind in a model: the runs in which a program loops over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

LONGEST_PERIOD = 16
"""Most layers that one iteration of the layer loop holds."""


class LayerKind(NamedTuple):
    """The facts in which layers of one model differ; they share all others."""

    experts: bool = False
    """Experts in place of the dense feed-forward."""
    window: int | None = None
    """Tokens up to its own that a query attends to; None: all of them."""


class LayerRun(NamedTuple):
    """``repeats`` iterations of the layer loop, each over the layers of ``period`` in order."""

    period: tuple[LayerKind, ...]
    repeats: int


def runs_of(kinds: Sequence[LayerKind]) -> tuple[LayerRun, ...]:
    """The runs that make up these layers in order, with the fewest layers written out in a program.

    A period has at most ``LONGEST_PERIOD`` layers.

    >>> dense, experts = LayerKind(), LayerKind(experts=True)
    >>> [(len(run.period), run.repeats) for run in runs_of([dense] * 3 + [experts] * 58)]
    [(1, 3), (1, 58)]
    >>> [(len(run.period), run.repeats) for run in runs_of([dense, experts] * 24)]
    [(2, 24)]
    """
    best: list[tuple[int, tuple[LayerRun, ...]]] = [(0, ())]  # of the layers from the end backwards
    for start in range(len(kinds) - 1, -1, -1):
        ways = [_behind(run, best[len(kinds) - start - len(run.period) * run.repeats]) for run in _first_runs(kinds, start)]
        best.append(min(ways, key=lambda way: (way[0], len(way[1]))))
    return best[-1][1]


def _behind(run: LayerRun, rest: tuple[int, tuple[LayerRun, ...]]) -> tuple[int, tuple[LayerRun, ...]]:
    return len(run.period) + rest[0], (run, *rest[1])


def _first_runs(kinds: Sequence[LayerKind], start: int) -> list[LayerRun]:
    """Runs that may begin at ``start``: of each period as often as it repeats, once less, and once."""
    runs: list[LayerRun] = []
    for length in range(1, min(LONGEST_PERIOD, len(kinds) - start) + 1):
        period, repeats = tuple(kinds[start : start + length]), 1
        while tuple(kinds[start + length * repeats : start + length * (repeats + 1)]) == period:
            repeats += 1
        runs.extend(LayerRun(period, count) for count in sorted({repeats, max(1, repeats - 1), 1}, reverse=True))
    return runs
