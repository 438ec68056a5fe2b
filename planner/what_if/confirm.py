"""--compile: the target's own compiler checks a boundary and a sweep's points."""

from __future__ import annotations

from dataclasses import replace

from planner.request.request_changes import Ask
from planner.what_if.boundary import KINDS
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

    Where the compiler does not agree with a longest sequence or a largest batch, the boundary of the answer's strategy is
    looked for with the compiler itself.
    """
    answer = _boundary(result.answer, measure) if result.answer else None
    if answer is not None and answer.confirmed is False and result.question in {"max-seq", "max-batch"}:
        answer = replace(answer, compiled=_refined(answer, result, measure=measure))
    return replace(result, answer=answer, points=tuple(_point(point, measure) for point in result.points))


def _refined(answer: Boundary, result: WhatIf, *, measure: Measure) -> CompiledBoundary | None:
    if answer.candidate is None or answer.value is None or not answer.candidate.usable:
        return None
    strategy = answer.candidate.strategy
    step = KINDS[result.question].unit(answer.request, strategy)
    ask = Ask(answer.request, (strategy.backend,), result.most_devices)
    line = Line(strategy, step, lambda steps: KINDS[result.question].at(ask, steps * step).request)
    return compiled_boundary(line, answer.candidate, start=answer.value // step, measure=measure)


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
