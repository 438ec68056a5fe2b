"""The text of a compiled executable as computations of instructions. Knows XLA's syntax, nothing of collectives."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_ELEMENT_BITS = {
    "pred": 8,
    "s2": 2,
    "u2": 2,
    "s4": 4,
    "u4": 4,
    "f4e2m1fn": 4,
    "s16": 16,
    "u16": 16,
    "f16": 16,
    "bf16": 16,
    "s32": 32,
    "u32": 32,
    "f32": 32,
    "s64": 64,
    "u64": 64,
    "f64": 64,
    "c64": 64,
    "c128": 128,
    "token": 0,
}
"""Bits of an element; every name that is not here (s8, u8 and the f8 family) has eight."""

_ARRAY = re.compile(r"\b([a-z][a-z0-9]*)\[([0-9,<= ]*)\]")
_HEADER = re.compile(r"(ENTRY )?%?([^\s(]+) \(.*\) -> .* \{\s*$|(ENTRY )?%?([^\s(){=]+) \{\s*$")
_NAME = re.compile(r"\s+(ROOT )?%?([^\s=]+) = ")
_OPERAND = re.compile(r"%([^\s,(){}]+)|([A-Za-z_][\w.\-]*)$")
_COMMENT = re.compile(r"/\*.*?\*/")


@dataclass(frozen=True)
class Instruction:
    """One line: ``name = shape opcode(operands), attributes``."""

    name: str
    shape: str
    opcode: str
    operands: tuple[str, ...]
    literal: str
    """The text between the parentheses, as written (a constant's value, a parameter's number)."""
    attributes: str

    def attribute(self, key: str) -> str | None:
        """The computation or word that an attribute names: ``body=%region_1`` gives ``region_1``."""
        match = re.search(rf"(?:^|[ ,]){key}=%?([^\s,{{}}]+)", self.attributes)
        return match[1] if match else None

    def called(self, key: str) -> tuple[str, ...]:
        """The computations of a braced attribute: ``branch_computations={%a, %b}``."""
        match = re.search(rf"(?:^|[ ,]){key}={{([^}}]*)}}", self.attributes)
        return tuple(name.strip().lstrip("%") for name in match[1].split(",")) if match and match[1] else ()

    @property
    def branches(self) -> tuple[str, ...]:
        """The computations of a conditional, in both of XLA's forms."""
        names = (self.attribute(key) for key in ("true_computation", "false_computation"))
        return self.called("branch_computations") or tuple(name for name in names if name)


@dataclass
class Computation:
    """Instructions by name, in the order of the schedule."""

    name: str
    instructions: dict[str, Instruction] = field(default_factory=dict)
    root: str | None = None


@dataclass(frozen=True)
class Module:
    """All computations of an executable; ``entry`` is where it starts."""

    computations: dict[str, Computation]
    entry: str
    devices: int
    """num_partitions x num_replicas, from the header."""


def shape_bytes(shape: str) -> int:
    """Bytes of an array or of all arrays of a tuple, without padding.

    >>> shape_bytes("(bf16[2048,512]{1,0:T(8,128)(2,1)}, u32[]{:S(2)})")
    2097156
    """
    total = 0
    for element, sizes in _ARRAY.findall(shape):
        count = 1
        for size in sizes.replace("<=", "").split(","):
            count *= int(size) if size.strip() else 1
        total += (count * _ELEMENT_BITS.get(element, 8) + 7) // 8
    return total


def _closing(text: str, start: int) -> int:
    """Index of the parenthesis that closes the one at ``start``; strings in quotes are skipped."""
    depth, i, end = 0, start, len(text)
    while i < end:
        char = text[i]
        if char == '"':
            i = text.find('"', i + 1)
            if i < 0:
                return end
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth == 0:
                return i
        i += 1
    return end


def _instruction(line: str) -> tuple[Instruction, bool] | None:
    match = _NAME.match(line)
    if not match:
        return None
    rest = line[match.end() :]
    cut = _closing(rest, 0) + 1 if rest.startswith("(") else rest.find(" ")
    shape, rest = rest[:cut], rest[cut:].lstrip()
    opening = rest.find("(")
    if opening < 0:
        return None
    closing = _closing(rest, opening)
    inside = rest[opening + 1 : closing]
    operands = tuple(a or b for a, b in _OPERAND.findall(_COMMENT.sub("", inside)))
    if "%" not in inside:
        operands = tuple(part.split()[-1] for part in _COMMENT.sub("", inside).split(",") if part.strip())
    made = Instruction(match[2], shape, rest[:opening], operands, inside, rest[closing + 1 :].lstrip(", "))
    return made, bool(match[1])


def parse_module(text: str) -> Module:
    """Read ``compiled.as_text()``.

    Raises
    ------
    ValueError
        The text has no entry computation.
    """
    computations: dict[str, Computation] = {}
    entry, current = None, None
    for line in text.splitlines():
        if line == "}":
            current = None
        elif not line.startswith(" "):  # a header, or the tail of an attribute that spans lines (a Mosaic kernel's)
            header = _HEADER.match(line)
            if header and " = " not in line.split("(")[0]:
                name = header[2] or header[4]
                current = computations.setdefault(name, Computation(name))
                entry = name if header[1] or header[3] else entry
        elif current is not None:
            parsed = _instruction(line)
            if parsed:
                current.instructions[parsed[0].name] = parsed[0]
                current.root = parsed[0].name if parsed[1] else current.root
    if entry is None:
        raise ValueError("no ENTRY computation in the executable's text")
    return Module(computations, entry, _devices(text[:20000]))


def _devices(head: str) -> int:
    partitions = re.search(r"num_partitions=(\d+)", head)
    replicas = re.search(r"replica_count=(\d+)", head)
    return int(partitions[1] if partitions else 1) * int(replicas[1] if replicas else 1)
