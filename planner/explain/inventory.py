"""Inventory: the collectives of the cost model next to those of the executable, and every difference that matters."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from lcplan.formats.units import format_bytes
from lcplan.spec.collective import CollectiveUse
from planner.candidates.candidate import Candidate
from planner.explain.traffic import Transfer

SMALL_BYTES = 2**16
"""Traffic of a step below this is bookkeeping (loop counters, norms): never reported as unexpected."""
TOLERANCE = 0.05
"""Relative difference up to which an executable's bytes match the cost model's."""


@dataclass(frozen=True)
class Line:
    """One kind of collective over one axis: bytes and calls per step by the cost model and in the executable."""

    op: str
    axis: str
    modelled_bytes: int
    modelled_calls: int
    compiled_bytes: int | None
    compiled_calls: int | None
    backends: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """``as modelled``, ``unexpected``, ``not found``, ``more`` or ``fewer`` bytes; empty where nothing was compiled."""
        if self.compiled_bytes is None:
            return ""
        if not self.modelled_bytes:
            return "unexpected" if self.compiled_bytes > SMALL_BYTES else "small"
        ratio = self.compiled_bytes / self.modelled_bytes
        if ratio == 0:
            return "not found" if self.modelled_bytes > SMALL_BYTES else "small"
        if abs(ratio - 1) <= TOLERANCE:
            return "as modelled"
        return "more" if ratio > 1 else "fewer"


def inventory(candidate: Candidate, moved: tuple[Transfer, ...]) -> tuple[Line, ...]:
    """Every (op, axis) of either side, most modelled bytes first."""
    modelled: dict[tuple[str, str], list[Transfer]] = defaultdict(list)
    for transfer in moved:
        modelled[transfer.op, transfer.axis].append(transfer)
    seen: dict[tuple[str, str], list[CollectiveUse]] = defaultdict(list)
    compiled = candidate.compiled if candidate.compiled is not None and not candidate.compiled.error else None
    for use in compiled.collectives if compiled else ():
        seen[use.op, use.axis].append(use)
    lines = [
        Line(
            op=op,
            axis=axis,
            modelled_bytes=sum(transfer.total_bytes for transfer in modelled[op, axis]),
            modelled_calls=sum(transfer.calls for transfer in modelled[op, axis]),
            compiled_bytes=sum(use.total_bytes for use in seen[op, axis]) if compiled else None,
            compiled_calls=sum(use.calls for use in seen[op, axis]) if compiled else None,
            backends=tuple(sorted({use.backend for use in seen[op, axis] if use.backend})),
        )
        for op, axis in {**modelled, **seen}
    ]
    return tuple(sorted(lines, key=lambda line: -max(line.modelled_bytes, line.compiled_bytes or 0)))


def trouble(candidate: Candidate, lines: tuple[Line, ...]) -> tuple[str, ...]:
    """Warnings about this candidate's evidence, most serious first."""
    both = (("compile", candidate.compiled), ("timing", candidate.timed))
    found = [f"the {name} failed: {one.error}" for name, one in both if one is not None and one.error]
    if candidate.compiled is not None:
        found += candidate.compiled.warnings
    found += [
        f"unexpected {line.op} over {line.axis or '?'} in the executable: {format_bytes(line.compiled_bytes or 0)} per "
        "step that the cost model does not list"
        for line in lines
        if line.verdict == "unexpected"
    ]
    found += [
        f"{line.op} over {line.axis} moves {format_bytes(line.compiled_bytes or 0)} per step in the executable, "
        f"{format_bytes(line.modelled_bytes)} by the cost model"
        for line in lines
        if line.verdict in {"more", "fewer", "not found"} and max(line.modelled_bytes, line.compiled_bytes or 0) > SMALL_BYTES
    ]
    return tuple(dict.fromkeys(found))
