"""Memory over an executable's schedule: the bytes that are alive at each instruction, from XLA's dumps."""

from __future__ import annotations

import re
from itertools import accumulate, pairwise
from pathlib import Path

from lcplan.evidence.execution import MemoryCurve
from planner.measure.hlo.buffers import ASSIGNMENTS, RANGES, Sources, operation_of
from planner.measure.hlo.text import Instruction, Module

POINTS = 240
"""Points of a curve; each is the largest value of its instructions."""
_STEP = re.compile(r"^\s+(\d+):(\S+)$")
_RANGE = re.compile(r"^\s+(\S+?)\{([\d,]*)\}:(\d+)-(\d+)$")
_ALLOCATION = re.compile(r"^allocation (\d+): ")
_VALUE = re.compile(r"^ value: <\d+ (\S+?)(?:\{([\d,]*)\})?(?: \(phi\))?(?: @\d+)?> \(size=(\d+),offset=(\d+)\)")

Place = tuple[int, int]
"""Allocation and offset in it: arrays at one place that are alive together are one buffer."""
Values = dict[tuple[str, str], tuple[Place, int]]
"""Place and size [bytes] of each array, by name and index."""


def memory_curve(folder: Path, module: Module, sources: Sources) -> MemoryCurve | None:
    """Return the memory over the schedule of the largest program; None where the compiler wrote no live ranges (libtpu).

    The bodies of loops are in the schedule once. Arguments are alive in all of it.
    """
    best: MemoryCurve | None = None
    for file in folder.glob(RANGES):
        values = _values(file.parent / file.name.replace(RANGES.strip("*"), ASSIGNMENTS.strip("*")))
        found = _curve(file.read_text(encoding="utf-8", errors="replace"), values, module=module, sources=sources)
        if found is not None and (best is None or found.peak_bytes > best.peak_bytes):
            best = found
    return best


def _values(file: Path) -> Values:
    found: Values = {}
    allocation = -1
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else ():
        if match := _ALLOCATION.match(line):
            allocation = int(match[1])
        elif match := _VALUE.match(line):
            found[match[1], match[2] or ""] = ((allocation, int(match[4])), int(match[3]))
    return found


def _curve(text: str, values: Values, *, module: Module, sources: Sources) -> MemoryCurve | None:
    names: dict[int, str] = {}
    ranges: dict[Place, list[tuple[int, int, int]]] = {}
    for line in text.splitlines():
        if step := _STEP.match(line):
            names[int(step[1])] = step[2]
        elif (found := _RANGE.match(line)) and (value := values.get((found[1], found[2]))):
            ranges.setdefault(value[0], []).append((int(found[3]), int(found[4]), value[1]))
    if not names or not ranges:
        return None
    alive = _alive(ranges, max(names) + 1)
    peak = max(range(len(alive)), key=alive.__getitem__)
    made = _instruction(module, names.get(peak, ""))
    operation = operation_of(made) if made is not None else ""
    return MemoryCurve(
        bytes=_thinned(alive),
        instructions=len(alive),
        peak_at=peak,
        peak_bytes=alive[peak],
        operation=operation or names.get(peak, ""),
        line=sources.line(made.attributes) if made is not None else "",
    )


def _alive(ranges: dict[Place, list[tuple[int, int, int]]], count: int) -> list[int]:
    """Bytes alive at each instruction; of arrays at one place the largest counts."""
    change = [0] * (count + 1)
    for found in ranges.values():
        edges = sorted({edge for first, last, _ in found for edge in (first, last + 1)})
        for start, end in pairwise(edges):
            size = max((size for first, last, size in found if first <= start <= last), default=0)
            change[min(start, count)] += size
            change[min(end, count)] -= size
    return list(accumulate(change))[:count]


def _instruction(module: Module, name: str) -> Instruction | None:
    return next((place.instructions[name] for place in module.computations.values() if name in place.instructions), None)


def _thinned(alive: list[int]) -> tuple[int, ...]:
    """Return at most ``POINTS`` values, each the largest of as many neighbours."""
    count = min(len(alive), POINTS)
    edges = [index * len(alive) // count for index in range(count + 1)]
    return tuple(max(alive[a:b]) for a, b in pairwise(edges))
