"""--compile: what the target's own compiler says of a boundary and of a sweep's points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from planner.candidate import Candidate
from planner.request import SearchRequest
from planner.what_if.result import Boundary, Point, WhatIf

Measure = Callable[[SearchRequest, Candidate], Candidate]
"""Compile one candidate of a request and hold it against the request's budget."""


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
    """The same answer with every candidate compiled: of a boundary also the closest strategy one step further."""
    answer = _boundary(result.answer, measure) if result.answer else None
    return replace(result, answer=answer, points=tuple(_point(point, measure) for point in result.points))


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
