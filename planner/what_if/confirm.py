"""--compile: the target's own compiler checks a boundary and a sweep's points."""

from __future__ import annotations

from dataclasses import replace

from lcplan.strategy import Strategy
from planner.request.request_changes import Ask
from planner.what_if.boundary import KINDS
from planner.what_if.near import fewest_as_compiled, near_boundary
from planner.what_if.refine import CompiledBoundary, Line, Measure, compiled_boundary
from planner.what_if.result import Boundary, Point, WhatIf


def compiles(result: WhatIf) -> int:
    """How many compiles ``confirm`` will ask for."""
    boundaries = [result.answer, *(point.boundary for point in result.points)]
    of_boundaries = sum(
        (found.candidate is not None) + (found.next is not None and found.next.miss is not None)
        for found in boundaries
        if found is not None
    )
    return of_boundaries + sum(point.boundary is None and point.candidate is not None for point in result.points)


def confirm(result: WhatIf, measure: Measure) -> WhatIf:
    """The same answer with every candidate compiled: of a boundary also the closest strategy one step further.

    The boundary is then looked for with the compiler itself: along the answer's strategy where the compiler does not agree with
    it, and along the best strategy that is over the budget by less than the half-width of its memory.
    """
    answer = _boundary(result.answer, measure) if result.answer else None
    if answer is not None:
        answer = replace(answer, compiled=_as_compiled(answer, result, measure=measure))
    return replace(result, answer=answer, points=tuple(_point(point, measure) for point in result.points))


def _as_compiled(answer: Boundary, result: WhatIf, *, measure: Measure) -> CompiledBoundary | None:
    """The compiler's boundary where it is another one than the answer."""
    if answer.confirmed is None and answer.candidate is not None:
        return None  # nothing was compiled for the target
    if result.question == "min-devices":
        return fewest_as_compiled(answer, most_devices=result.most_devices, measure=measure)
    if result.question == "sweep":
        return None
    own = _refined(answer, result, measure=measure) if answer.confirmed is False else None
    near = _near(answer, result, measure=measure)
    found = [line for line in (own, near) if line is not None]
    return max(found, key=lambda line: line.value or 0, default=None)


def _refined(answer: Boundary, result: WhatIf, *, measure: Measure) -> CompiledBoundary | None:
    if answer.candidate is None or answer.value is None or not answer.candidate.usable:
        return None
    line = _line(answer, result, answer.candidate.strategy)
    return compiled_boundary(line, answer.candidate, start=answer.value // line.step, measure=measure)


def _near(answer: Boundary, result: WhatIf, *, measure: Measure) -> CompiledBoundary | None:
    """The boundary of the near miss that goes furthest by the cost model, where as compiled it goes further than the answer."""
    further = near_boundary(answer, result.question, most_devices=result.most_devices)
    if further is None or further.candidate is None or further.value is None or further.value <= (answer.value or 0):
        return None
    if answer.candidate is not None and _alike(further.candidate.strategy, answer.candidate.strategy):
        return None
    line = _line(answer, result, further.candidate.strategy)
    start = (answer.value or 0) // line.step + 1
    if answer.value is None:
        start = further.value // line.step
    first = line.candidate(start)
    measured = measure(line.at(start), first) if first is not None else None
    if measured is None or measured.target_compile is None or (answer.value is not None and not measured.best.fits):
        return None
    found = compiled_boundary(line, measured, start=start, measure=measure)
    return found if found.value is not None else None


def _alike(one: Strategy, other: Strategy) -> bool:
    """Whether two strategies are the same except for the loss chunk, which follows the length."""
    return one.model_copy(update={"loss_chunk_tokens": other.loss_chunk_tokens}) == other


def _line(answer: Boundary, result: WhatIf, strategy: Strategy) -> Line:
    kind = KINDS[result.question]
    step, ask = kind.unit(answer.request, strategy), Ask(answer.request, (strategy.backend,), result.most_devices)
    return Line(strategy, step, lambda steps: kind.at(ask, steps * step).request)


def _point(point: Point, measure: Measure) -> Point:
    if point.boundary is not None:
        found = _boundary(point.boundary, measure)
        return replace(point, boundary=found, candidate=found.candidate)
    return replace(point, candidate=measure(point.request, point.candidate)) if point.candidate else point


def _boundary(found: Boundary, measure: Measure) -> Boundary:
    candidate = measure(found.request, found.candidate) if found.candidate else None
    following = found.next
    if following is not None and following.miss is not None:
        following = replace(following, miss=measure(following.request, following.miss))
    return replace(found, candidate=candidate, next=following)
