"""The answer of a what-if as frozen values, as the JSON document that scripts read, and as flat rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from planner.candidates.candidate import Candidate
from planner.candidates.cost import Cost
from planner.candidates.data_frame import frame
from planner.candidates.rows import flat_row
from planner.request.document import SCHEMA_VERSION, request_json
from planner.request.request import SearchRequest
from planner.what_if.binds import Binds
from planner.what_if.changes.smallest_change import Change
from planner.what_if.refine import CompiledBoundary
from planner.what_if.vary import QUANTITIES

if TYPE_CHECKING:
    from pandas import DataFrame

Question = Literal["max-seq", "min-devices", "max-batch", "sweep"]
QUANTITY: dict[str, str] = {"max-seq": "seq_len", "min-devices": "devices", "max-batch": "global_batch"}
"""JSON key of each boundary question's answer."""


@dataclass(frozen=True)
class NextStep:
    """One step beyond the boundary, where nothing fits: the value, and the valid strategy that comes closest."""

    value: int
    miss: Candidate | None
    request: SearchRequest


@dataclass(frozen=True)
class Moved:
    """A change, and the boundary after it."""

    change: Change
    value: int | None


@dataclass(frozen=True)
class Boundary:
    """The answer of one boundary question. ``value`` is None where nothing fits at all.

    ``candidate`` is the best strategy by objective at ``value``; at ``next.value``, ``step`` further, no strategy fits.
    ``changes`` raise (or lower) the boundary, cheapest first.
    """

    value: int | None
    step: int | None
    candidate: Candidate | None
    binds: Binds
    rule: Binds | None
    """The rule without which something would fit one step further, where there is one."""
    next: NextStep | None
    request: SearchRequest
    """The request at ``value``: its batch is the one that the candidate was priced with."""
    changes: tuple[Moved, ...] = ()
    compiled: CompiledBoundary | None = None
    """The boundary of the candidate's strategy as compiled, where the compiler did not agree."""

    @property
    def answered(self) -> int | None:
        """The answer on the best evidence: the boundary of the compiler where it found another one, else the modelled one."""
        return self.value if self.compiled is None or self.compiled.value is None else self.compiled.value

    @property
    def best(self) -> Candidate | None:
        """The strategy of ``answered``; None where nothing fits."""
        found = self.compiled.candidate if self.compiled is not None else None
        return found or self.candidate

    @property
    def confirmed(self) -> bool | None:
        """Whether compiling agrees: the answer fits and the closest miss one step further does not. None: not compiled."""
        here = self.candidate.compiled if self.candidate else None
        there = self.next.miss.compiled if self.next and self.next.miss else None
        if here is None or here.fits is None or (there is not None and there.fits is None):
            return None
        another = self.compiled is not None and self.compiled.value != self.value
        return here.fits and not another and not (there is not None and there.fits)


@dataclass(frozen=True)
class Point:
    """One combination of the varied quantities. ``boundary`` only where a boundary was asked for at each point."""

    varied: dict[str, Any]
    request: SearchRequest
    candidate: Candidate | None
    binds: Binds
    boundary: Boundary | None = None


@dataclass(frozen=True)
class WhatIf:
    """A question with its answer and its points."""

    question: Question
    request: SearchRequest
    most_devices: int
    answer: Boundary | None
    points: tuple[Point, ...]
    notes: tuple[str, ...] = ()
    price_usd_per_device_hour: float | None = None

    @property
    def found(self) -> bool:
        """False where a boundary was asked for and nothing fits anywhere."""
        if self.question == "sweep":
            return True
        points = [point.boundary for point in self.points if point.boundary is not None]
        return any(boundary is not None and boundary.answered is not None for boundary in (self.answer, *points))

    def with_notes(self, notes: tuple[str, ...], price_usd_per_device_hour: float | None) -> WhatIf:
        """The same answer with more notes and a price."""
        return replace(self, notes=(*self.notes, *notes), price_usd_per_device_hour=price_usd_per_device_hour)

    def cost(self, candidate: Candidate, request: SearchRequest) -> Cost:
        """Device-hours, money and energy of a billion tokens."""
        return Cost.of(candidate, request.hardware, self.price_usd_per_device_hour)

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``lcplan whatif`` in DESIGN."""
        return {
            "schema_version": SCHEMA_VERSION,
            "request": request_json(self.request) | {"most_devices": self.most_devices},
            "question": self.question,
            "answer": self._boundary_json(self.answer) if self.answer else None,
            "points": [self._point_json(point) for point in self.points],
            "notes": list(self.notes),
        }

    def _boundary_json(self, boundary: Boundary) -> dict[str, Any]:
        following, best = boundary.next, boundary.best
        return {
            "global_batch": boundary.request.workload.global_batch,
            QUANTITY[self.question]: boundary.answered,
            f"modelled_{QUANTITY[self.question]}": boundary.value,
            "step": boundary.step,
            **_binds_json(boundary.binds),
            "binding_rule": {"name": boundary.rule.name, "says": boundary.rule.says} if boundary.rule else None,
            "candidate": best.to_json() if best else None,
            "cost": self.cost(best, boundary.request).to_json() if best else None,
            "next": {"value": following.value, "nearest_miss": following.miss.to_json() if following.miss else None}
            if following
            else None,
            "confirmed": boundary.confirmed,
            "compiled_boundary": self._compiled_json(boundary.compiled) if boundary.compiled else None,
            "changes": [
                moved.change.to_json() | {f"then_{QUANTITY[self.question]}": moved.value} for moved in boundary.changes
            ],
        }

    def _compiled_json(self, found: CompiledBoundary) -> dict[str, Any]:
        return {
            QUANTITY[self.question]: found.value,
            "next": found.next_value,
            "step": found.step,
            "exact": found.exact,
            "compiles": found.compiles,
            "candidate": found.candidate.to_json() if found.candidate else None,
        }

    def _point_json(self, point: Point) -> dict[str, Any]:
        quantity = QUANTITY.get(self.question)
        own = {quantity: point.boundary.value, "step": point.boundary.step} if quantity and point.boundary else {}
        return {
            **point.varied,
            **own,
            "candidate": point.candidate.to_json() if point.candidate else None,
            "cost": self.cost(point.candidate, point.request).to_json() if point.candidate else None,
            **_binds_json(point.binds),
        }

    def rows(self) -> list[dict[str, Any]]:
        """One flat row per point (or the one answer), all with the same columns, for CSV and data frames."""
        if not self.points and self.answer is not None:
            return [self._row({}, candidate=self.answer.candidate, binds=self.answer.binds, boundary=self.answer)]
        rows = [
            self._row(point.varied, candidate=point.candidate, binds=point.binds, boundary=point.boundary)
            for point in self.points
        ]
        columns = list(dict.fromkeys(name for row in rows for name in row))
        return [{name: row.get(name) for name in columns} for row in rows]

    def to_pandas(self) -> DataFrame:
        """The points as a data frame (extra ``pandas``)."""
        return frame(self.rows())

    def _row(
        self, varied: dict[str, Any], *, candidate: Candidate | None, binds: Binds, boundary: Boundary | None
    ) -> dict[str, Any]:
        own = {f"answer_{QUANTITY[self.question]}": boundary.value} if boundary else {}
        names = {f"varied_{QUANTITIES[name].json_name}": value for name, value in varied.items() if name in QUANTITIES}
        return {**names, **own, "binds": binds.name, **(flat_row(candidate) if candidate else {})}


def _binds_json(binds: Binds) -> dict[str, str]:
    return {"binds": binds.name, "binds_kind": binds.kind, "binds_says": binds.says}
