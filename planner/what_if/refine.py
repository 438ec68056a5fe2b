"""--compile, where compiled memory differs from the cost model's: the boundary of the answer's strategy as compiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lcplan.formats.nearest import divisors
from lcplan.strategy import Strategy
from planner.candidates.candidate import Candidate
from planner.request.request import SearchRequest
from planner.space.analysis import setting_of
from planner.workloads.points import broken_rules
from planner.workloads.pricing import price

MOST_COMPILES = 8
"""Compiles beyond the answer's own that a refinement may take; each closes in, so few are needed."""

Measure = Callable[[SearchRequest, Candidate], Candidate]


@dataclass(frozen=True)
class CompiledBoundary:
    """The compiled boundary of one strategy: it fits at ``value``; at ``next_value`` it does not.

    ``exact`` where they are one step apart, else the boundary is between them.
    """

    value: int | None
    next_value: int | None
    step: int
    candidate: Candidate | None
    compiles: int

    @property
    def exact(self) -> bool:
        """Whether the bracket has closed to one step."""
        return self.value is not None and self.next_value is not None and self.next_value - self.value == self.step


@dataclass(frozen=True)
class Line:
    """The steps at which compiles are tried: ``at(n)`` is the request at ``n`` steps; the loss chunk follows the length."""

    strategy: Strategy
    step: int
    at: Callable[[int], SearchRequest]

    def candidate(self, steps: int) -> Candidate | None:
        """The strategy priced at ``steps``; None where a rule is in the way."""
        request = self.at(steps)
        local = request.workload.seq_len // self.strategy.mesh.context
        fitting = [d for d in divisors(local) if d <= self.strategy.loss_chunk_tokens and d % self.strategy.mesh.tensor == 0]
        strategy = self.strategy.model_copy(update={"loss_chunk_tokens": max(fitting, default=1)})
        return None if broken_rules(setting_of(request), strategy) else price(request, strategy)


def compiled_boundary(line: Line, first: Candidate, *, start: int, measure: Measure) -> CompiledBoundary:
    """Close in on the last number of steps at which the compiled strategy fits, from its compile at ``start``.

    Need is close to a straight line in tokens, so each try is where the line through the last two compiles (the model's slope
    before there are two) meets the budget, kept inside the bracket.
    """
    good: int | None = start if first.best.fits else None
    bad: int | None = None if first.best.fits else start
    best = first if first.best.fits else None
    points = [(start, _need(first))]
    slope = _slope_by_law(line, start)
    compiles = 1
    while compiles <= MOST_COMPILES and (bad is None or bad - (good or 0) > 1):
        budget = line.at(start).budget_bytes
        guess = points[-1][0] + int((budget - points[-1][1]) // slope)
        steps = _inside(guess, good=good, bad=bad)
        if line.candidate(steps) is None:  # a rule is in the way, such as a full host: bisect up to it without a compile
            steps, bad = _last_allowed(line, low=good or 0, high=steps)
        priced = line.candidate(steps) if steps > (good or 0) else None
        if priced is None:
            break
        measured = measure(line.at(steps), priced)
        compiles += 1
        if measured.compiled is None or measured.compiled.total_bytes is None:
            break
        points.append((steps, _need(measured)))
        slope = _secant(points, slope)
        good, bad, best = (steps, bad, measured) if measured.best.fits else (good, steps, best)
    return CompiledBoundary(_times(good, line.step), _times(bad, line.step), line.step, best, compiles)


def _last_allowed(line: Line, *, low: int, high: int) -> tuple[int, int]:
    """The last steps above ``low`` that keep the rules, or ``low``; and the next, which do not. ``high`` does not."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if line.candidate(middle) is None else (middle, high)
    return low, high


def _need(candidate: Candidate) -> int:
    return candidate.best.memory_bytes + int(candidate.estimate["allowance_bytes"])


def _slope_by_law(line: Line, start: int) -> float:
    """Bytes per step by the cost model, over an eighth of ``start``: far beyond it a rule may reject, such as a full host."""
    ahead = max(1, start // 8)
    here, there = line.candidate(start), line.candidate(start + ahead)
    if here is None or there is None:
        return 1.0
    return max(1.0, (_need(there) - _need(here)) / ahead)


def _secant(points: list[tuple[int, int]], fallback: float) -> float:
    (first, low), (second, high) = points[-2:]
    return max(1.0, (high - low) / (second - first)) if second != first and (high > low) == (second > first) else fallback


def _inside(guess: int, *, good: int | None, bad: int | None) -> int:
    """The guess, strictly between the largest fit and the smallest miss, and at least one step."""
    low = good + 1 if good is not None else 1
    if bad is None:
        return max(guess, low)
    return min(max(guess, low), bad - 1)


def _times(steps: int | None, step: int) -> int | None:
    return None if steps is None else steps * step
