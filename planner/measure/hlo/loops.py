"""How often a while loop's body runs: from XLA's own annotation, else from its condition, start and step."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from planner.measure.hlo.text import Computation, Instruction, Module

_TRANSPARENT = {"copy", "bitcast", "convert", "reshape", "opt-barrier", "copy-done", "copy-start"}
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


class _Scalar(NamedTuple):
    """``base`` (a constant, or an element of the loop's state) plus ``shift``."""

    kind: str
    base: int
    shift: int = 0


@dataclass(frozen=True)
class _Scope:
    """A computation whose scalars are read through copies, tuples and small fusions; ``bound`` are a fusion's parameters."""

    module: Module
    place: Computation
    bound: tuple[_Scalar | None, ...] = ()

    @property
    def root(self) -> Instruction | None:
        return self.place.instructions.get(self.place.root or "")

    def scalar(self, name: str) -> _Scalar | None:
        """The scalar called ``name``; None where it cannot be resolved."""
        instruction = self.place.instructions.get(name)
        if instruction is None:
            return None
        if instruction.opcode in _TRANSPARENT:
            return self.scalar(instruction.operands[0])
        readers = {
            "constant": _constant,
            "parameter": self._parameter,
            "get-tuple-element": self._element,
            "add": self._sum,
            "subtract": self._sum,
            "fusion": self._fusion,
        }
        reader = readers.get(instruction.opcode)
        return reader(instruction) if reader else None

    def arguments(self, instruction: Instruction) -> tuple[_Scalar | None, ...]:
        """The scalars that an instruction takes."""
        return tuple(self.scalar(name) for name in instruction.operands)

    def inside(self, fusion: Instruction) -> _Scope | None:
        """The computation that a fusion calls, its parameters bound."""
        called = self.module.computations.get(fusion.attribute("calls") or "")
        return _Scope(self.module, called, self.arguments(fusion)) if called else None

    def _parameter(self, instruction: Instruction) -> _Scalar | None:
        number = int(instruction.literal)
        return self.bound[number] if number < len(self.bound) else None

    def _element(self, instruction: Instruction) -> _Scalar | None:
        index = int(instruction.attribute("index") or 0)
        source = self.place.instructions.get(instruction.operands[0])
        if source is None:
            return None
        if source.opcode == "parameter" and not self.bound:
            return _Scalar("state", index)
        return self.scalar(source.operands[index]) if source.opcode == "tuple" else None

    def _sum(self, instruction: Instruction) -> _Scalar | None:
        a, b = self.arguments(instruction)
        if a is None or b is None:
            return None
        if b.kind != "constant" and instruction.opcode == "add":
            a, b = b, a
        if b.kind != "constant":
            return None
        sign = 1 if instruction.opcode == "add" else -1
        return a._replace(shift=a.shift + sign * (b.base + b.shift))

    def _fusion(self, instruction: Instruction) -> _Scalar | None:
        inner = self.inside(instruction)
        return inner.scalar(inner.place.root) if inner and inner.place.root else None


def _constant(instruction: Instruction) -> _Scalar | None:
    return _Scalar("constant", int(instruction.literal)) if re.fullmatch(r"-?\d+", instruction.literal) else None


class _Test(NamedTuple):
    """``counter < limit`` (or another direction), the counter on the left."""

    counter: _Scalar
    limit: _Scalar
    direction: str


@dataclass(frozen=True)
class _Loop:
    caller: _Scope
    instruction: Instruction

    def scope(self, key: str) -> _Scope | None:
        """Its ``body`` or ``condition``."""
        place = self.caller.module.computations.get(self.instruction.attribute(key) or "")
        return _Scope(self.caller.module, place) if place else None

    def test(self) -> _Test | None:
        """The comparison of the loop's condition."""
        scope = self.scope("condition")
        if scope and scope.root and scope.root.opcode == "fusion":
            scope = scope.inside(scope.root)
        if scope is None or scope.root is None or scope.root.opcode != "compare":
            return None
        left, right = scope.arguments(scope.root)
        direction = scope.root.attribute("direction") or ""
        if left is None or right is None:
            return None
        if left.kind == "constant":
            left, right = right, left
            direction = direction.translate(str.maketrans("LG", "GL"))
        return _Test(left, right, direction) if left.kind == "state" else None

    def entering(self, scalar: _Scalar) -> int | None:
        """The value of a constant, or of an element of the state when the loop begins."""
        if scalar.kind == "constant":
            return scalar.base + scalar.shift
        state = self.caller.place.instructions.get(self.instruction.operands[0])
        if state is None or state.opcode != "tuple" or scalar.base >= len(state.operands):
            return None
        value = self.caller.scalar(state.operands[scalar.base])
        return value.base + value.shift if value is not None and value.kind == "constant" else None

    def step(self, counter: _Scalar) -> int | None:
        """The increment of the counter per iteration; None where it is not a constant."""
        body = self.scope("body")
        root = body.root if body else None
        if body is None or root is None or root.opcode != "tuple" or counter.base >= len(root.operands):
            return None
        after = body.scalar(root.operands[counter.base])
        same = after is not None and after.kind == "state" and after.base == counter.base
        return after.shift if after is not None and same and after.shift else None


def trip_count(module: Module, *, caller: Computation, loop: Instruction) -> int | None:
    """How often ``loop``, a while instruction of ``caller``, runs its body; None where the text does not show it."""
    known = _TRIPS.search(loop.attributes)
    if known:
        return int(known[1])
    read = _Loop(_Scope(module, caller), loop)
    test = read.test()
    if test is None:
        return None
    start, stop, step = read.entering(test.counter._replace(shift=0)), read.entering(test.limit), read.step(test.counter)
    if start is None or stop is None or step is None:
        return None
    return _trips(range(start, stop - test.counter.shift, step), test.direction)


def _trips(span: range, direction: str) -> int | None:
    """Trips of a counter that runs through ``span``; LE and GE take its end as well."""
    up = span.step > 0
    if direction == "EQ" or (direction in ("LT", "LE") and not up) or (direction in ("GT", "GE") and up):
        return None
    one = 1 if up else -1
    return len(range(span.start, span.stop + one, span.step)) if direction in ("LE", "GE") else len(span)
