"""Arrays that an executable keeps from the forward pass for the backward pass, with the source lines that made them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from lcplan.evidence.execution import Buffer
from planner.measure.hlo.buffers import Sources, operation_of
from planner.measure.hlo.text import Computation, Instruction, Module, shape_bytes

MOST = 12
"""Arrays that are kept."""
SMALL_BYTES = 1024
"""Arrays below this size are left out: counters, scales and losses."""
_PASSING = {"get-tuple-element", "bitcast", "copy", "tuple", "opt-barrier", "reshape", "copy-start", "copy-done"}
_NO_MAKER = _PASSING | {"parameter", "constant", "after-all", "partition-id", "replica-id", "iota"}
_VIEWS = {"bitcast", "reshape", "copy", "convert", "broadcast"}


def saved_arrays(module: Module, sources: Sources) -> list[Buffer]:
    """Return the arrays that forward operations make and backward operations read, the largest first.

    jax names the operations of a backward pass ``transpose(jvp(..))``, also those operations that
    ``jax.checkpoint`` repeats. A loop over layers stacks the arrays of all layers in one. An argument of the step that both
    passes read is no saved array.
    """
    found = [one for place in module.computations.values() if _runs(place) for one in _Place(module, place, sources).saved()]
    return sorted(found, key=lambda one: -one.bytes)


def _runs(place: Computation) -> bool:
    """Whether the backward pass runs in this computation: some instruction of it, not of a fusion's inside, is named so."""
    return any(_backward(one) and one.opcode in ("while", "fusion", "custom-call") for one in place.instructions.values())


def _backward(one: Instruction) -> bool:
    return "transpose(" in operation_of(one)


def _forward(one: Instruction) -> bool:
    name = operation_of(one)
    return "jvp(" in name and "transpose(" not in name


@dataclass(frozen=True)
class _Place:
    module: Module
    place: Computation
    sources: Sources

    def saved(self) -> Iterator[Buffer]:
        """Yield the arrays that this computation saves."""
        for one in self.place.instructions.values():
            if one.opcode in _NO_MAKER or not _forward(one):
                continue
            for array, index in self._arrays(one):
                size = shape_bytes(array.shape)
                if size >= SMALL_BYTES and not self._unchanged(one, index) and self._read_back(array):
                    maker = self._maker(one, index)
                    shape = re.match(r"[a-z][a-z0-9]*\[[0-9,<= ]*\]", array.shape)
                    yield Buffer(
                        bytes=size,
                        shape=shape[0] if shape else array.shape,
                        operation=operation_of(maker),
                        line=self.sources.line(maker.attributes),
                    )

    @cached_property
    def _users(self) -> dict[str, list[Instruction]]:
        users: dict[str, list[Instruction]] = {}
        for one in self.place.instructions.values():
            for name in one.operands:
                users.setdefault(name, []).append(one)
        return users

    def _arrays(self, one: Instruction) -> Iterator[tuple[Instruction, int]]:
        """The arrays that an instruction makes, each with its index in the instruction's tuple."""
        if not one.shape.startswith("("):
            yield one, 0
            return
        for user in self._users.get(one.name, ()):
            if user.opcode == "get-tuple-element":
                yield user, int(user.attribute("index") or 0)

    def _read_back(self, array: Instruction) -> bool:
        """Whether a backward operation reads the array, through views and tuples."""
        waiting, seen = [array.name], {array.name}
        while waiting:
            for user in self._users.get(waiting.pop(), ()):
                if user.opcode not in _PASSING and _backward(user):
                    return True
                if user.opcode in _PASSING and user.name not in seen:
                    seen.add(user.name)
                    waiting.append(user.name)
        return False

    def _element(self, loop: Instruction, index: int) -> tuple[Computation, Instruction] | None:
        """The instruction of a loop's body that makes an element of its state."""
        body = self.module.computations.get(loop.attribute("body") or "")
        root = body.instructions.get(body.root or "") if body is not None else None
        if body is None or root is None or root.opcode != "tuple" or index >= len(root.operands):
            return None
        made = body.instructions.get(root.operands[index])
        return (body, made) if made is not None else None

    def _unchanged(self, one: Instruction, index: int) -> bool:
        """Whether a loop hands an element of its state on as it was, such as the stacked weights."""
        found = self._element(one, index) if one.opcode == "while" else None
        if found is None:
            return False
        made = found[1]
        return made.opcode == "get-tuple-element" and int(made.attribute("index") or 0) == index

    def _maker(self, one: Instruction, index: int) -> Instruction:
        """The operation that made the array; of a stack of a loop the one whose result the loop writes into it."""
        found = self._element(one, index) if one.opcode == "while" else None
        if found is None:
            return one
        place, made = found
        made = _through(place, made)
        inside = self.module.computations.get(made.attribute("calls") or "") if made.opcode == "fusion" else None
        writes = [made] if made.opcode == "dynamic-update-slice" else []
        if inside is not None:
            writes = [part for part in inside.instructions.values() if part.opcode == "dynamic-update-slice"]
        for write in writes[:1]:
            scope = inside or place
            value = _through(scope, scope.instructions.get(write.operands[1], write))
            if value.opcode == "parameter" and inside is not None and int(value.literal) < len(made.operands):
                value = _through(place, place.instructions.get(made.operands[int(value.literal)], made))
            return value if operation_of(value) else made
        return made


def _through(place: Computation, one: Instruction) -> Instruction:
    """Follow views and casts back to the operation whose result they show."""
    while one.opcode in _VIEWS and one.operands and one.operands[0] in place.instructions:
        one = place.instructions[one.operands[0]]
    return one
