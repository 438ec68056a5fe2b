"""How often a while loop's body runs: from XLA's own annotation, else from its condition, start and step."""

from __future__ import annotations

import re
from typing import NamedTuple

from planner.measure.hlo_text import Computation, Instruction, Module

_TRANSPARENT = {"copy", "bitcast", "convert", "reshape", "opt-barrier", "copy-done", "copy-start"}
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


class _Scalar(NamedTuple):
    """``base`` (a constant, or an element of the loop's state) plus ``shift``."""

    kind: str
    base: int
    shift: int = 0


_Bound = tuple[_Scalar | None, ...]
"""What a computation's parameters are."""


def _constant(_place: Computation, instruction: Instruction, _bound: _Bound) -> _Scalar | None:
    return _Scalar("constant", int(instruction.literal)) if re.fullmatch(r"-?\d+", instruction.literal) else None


def _parameter(_place: Computation, instruction: Instruction, bound: _Bound) -> _Scalar | None:
    number = int(instruction.literal)
    return bound[number] if number < len(bound) else None


class _Reader:
    """Reads a scalar through copies, tuples and small fusions."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def scalar(self, place: Computation, name: str, bound: _Bound = ()) -> _Scalar | None:
        """The scalar ``name`` of ``place``; ``bound`` are its parameters where it is the inside of a fusion."""
        instruction = place.instructions.get(name)
        if instruction is None:
            return None
        if instruction.opcode in _TRANSPARENT:
            return self.scalar(place, instruction.operands[0], bound)
        readers = {
            "constant": _constant,
            "parameter": _parameter,
            "get-tuple-element": self._element,
            "add": self._sum,
            "subtract": self._sum,
            "fusion": self._fusion,
        }
        reader = readers.get(instruction.opcode)
        return reader(place, instruction, bound) if reader else None

    def _element(self, place: Computation, instruction: Instruction, bound: _Bound) -> _Scalar | None:
        index = int(instruction.attribute("index") or 0)
        source = place.instructions.get(instruction.operands[0])
        if source is None:
            return None
        if source.opcode == "parameter" and not bound:
            return _Scalar("state", index)
        if source.opcode == "tuple":
            return self.scalar(place, source.operands[index], bound)
        return None

    def _sum(self, place: Computation, instruction: Instruction, bound: _Bound) -> _Scalar | None:
        a, b = (self.scalar(place, name, bound) for name in instruction.operands[:2])
        if a is None or b is None:
            return None
        if b.kind != "constant":
            a, b = (b, a) if instruction.opcode == "add" else (a, b)
        if b.kind != "constant":
            return None
        sign = 1 if instruction.opcode == "add" else -1
        return a._replace(shift=a.shift + sign * (b.base + b.shift))

    def _fusion(self, place: Computation, instruction: Instruction, bound: _Bound) -> _Scalar | None:
        inner = self.inside(instruction)
        if inner is None or inner.root is None:
            return None
        return self.scalar(inner, inner.root, self.arguments(place, instruction, bound))

    def inside(self, instruction: Instruction) -> Computation | None:
        """The computation that a fusion calls."""
        return self.module.computations.get(instruction.attribute("calls") or "")

    def arguments(self, place: Computation, instruction: Instruction, bound: _Bound = ()) -> _Bound:
        """The scalars that an instruction takes."""
        return tuple(self.scalar(place, name, bound) for name in instruction.operands)


def trip_count(module: Module, caller: Computation, loop: Instruction) -> int | None:
    """How often ``loop``, a while instruction of ``caller``, runs its body; None where the text does not tell."""
    known = _TRIPS.search(loop.attributes)
    if known:
        return int(known[1])
    reader = _Reader(module)
    condition = module.computations.get(loop.attribute("condition") or "")
    body = module.computations.get(loop.attribute("body") or "")
    test = _test(reader, condition) if condition else None
    if body is None or test is None:
        return None
    counter, limit, direction = test
    start = _entering(reader, caller, loop, counter)
    end = limit if limit.kind == "constant" else _entering(reader, caller, loop, limit)
    step = _leaving(reader, body, counter)
    if start is None or end is None or step is None or start.kind != "constant" or end.kind != "constant":
        return None
    stop = end.base + end.shift - counter.shift
    return _trips(start.base + start.shift, stop, step, direction)


def _test(reader: _Reader, condition: Computation) -> tuple[_Scalar, _Scalar, str] | None:
    """(counter, limit, direction) of ``counter < limit``, with the counter on the left."""
    place, root = condition, condition.instructions.get(condition.root or "")
    bound: _Bound = ()
    if root is not None and root.opcode == "fusion":
        bound = reader.arguments(condition, root)
        inner = reader.inside(root)
        place, root = (inner, inner.instructions.get(inner.root or "")) if inner else (condition, None)
    if root is None or root.opcode != "compare":
        return None
    left, right = reader.arguments(place, root, bound)
    direction = root.attribute("direction") or ""
    if left is None or right is None:
        return None
    if left.kind == "constant":
        left, right = right, left
        direction = direction.translate(str.maketrans("LG", "GL"))
    return (left, right, direction) if left.kind == "state" else None


def _entering(reader: _Reader, caller: Computation, loop: Instruction, scalar: _Scalar) -> _Scalar | None:
    state = caller.instructions.get(loop.operands[0]) if loop.operands else None
    if state is None or state.opcode != "tuple" or scalar.base >= len(state.operands):
        return None
    return reader.scalar(caller, state.operands[scalar.base])


def _leaving(reader: _Reader, body: Computation, counter: _Scalar) -> int | None:
    root = body.instructions.get(body.root or "")
    if root is None or root.opcode != "tuple" or counter.base >= len(root.operands):
        return None
    after = reader.scalar(body, root.operands[counter.base])
    same = after is not None and after.kind == "state" and after.base == counter.base
    return after.shift if after is not None and same and after.shift else None


def _trips(start: int, stop: int, step: int, direction: str) -> int | None:
    if direction in ("LE", "GE"):
        stop += 1 if direction == "LE" else -1
    if (direction in ("LT", "LE") and step < 0) or (direction in ("GT", "GE") and step > 0) or direction == "EQ":
        return None
    distance = (stop - start) * (1 if step > 0 else -1)
    return max(0, -(-distance // abs(step)))
