"""Alternatives as rows: the front of time against memory, and the best of each remat policy, scheme and mesh family."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lcplan.strategy import Strategy
from planner.candidates.candidate import Candidate

SHOWN = 12
"""Alternatives that a table shows at most."""
WORTH_SHOWING = 1.5
"""An alternative that takes this many times the fastest plan's step is left out, unless it is on the front."""


def tradeoffs(
    alternatives: Sequence[tuple[Candidate, tuple[str, ...]]], *, without: Collection[Strategy]
) -> list[tuple[Candidate, str]]:
    """The alternatives to show, best first, each with its reasons as text; the front goes before the others."""
    if not alternatives:
        return []
    most = WORTH_SHOWING * min(candidate.best.step_s for candidate, _ in alternatives)
    worth = [
        (number, candidate, reasons)
        for number, (candidate, reasons) in enumerate(alternatives)
        if candidate.strategy not in without and ("front" in reasons or candidate.best.step_s <= most)
    ]
    first = sorted(worth, key=lambda one: (_rank(one[2]), one[0]))[:SHOWN]
    return [(candidate, _kinds(reasons)) for _, candidate, reasons in sorted(first, key=lambda one: one[0])]


def _kinds(reasons: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(reason.partition(" ")[0] for reason in reasons))


def _rank(reasons: Sequence[str]) -> int:
    kinds = ("front", "remat", "scheme", "mesh")
    return min(kinds.index(reason.partition(" ")[0]) for reason in reasons)
