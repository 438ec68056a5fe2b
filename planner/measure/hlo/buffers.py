"""The largest arrays at the peak of an executable's memory, with the source lines that made them, from XLA's dumps."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lcplan.evidence.execution import Buffer
from planner.measure.hlo.text import Instruction, Module, shape_bytes

MOST = 12
"""Buffers that are kept."""
RANGES = "*after_optimizations-live-range.txt"
ASSIGNMENTS = "*after_optimizations-buffer-assignment.txt"
_PEAK = re.compile(r"^\s+Live ranges at \d+ \(peak\):$")
_LIVE = re.compile(r"^\s+(\S+?)\{([\d,]*)\}: (\d+) bytes")
_VALUE = re.compile(r"^ value: <\d+ (\S+?)(?:\{[\d,]*\})?(?: @\d+)?> \(size=(\d+),offset=\d+\)", re.MULTILINE)
_NAME = re.compile(r'op_name="([^"]*)"')
_FRAME = re.compile(r"stack_frame_id=(\d+)")
_LINE = re.compile(r'source_file="([^"]*)" source_line=(\d+)')


def peak_buffers(folder: Path, text: str, module: Module) -> list[Buffer]:
    """Arrays that are alive at the peak, the largest first; empty where the compiler wrote no account of them.

    XLA for GPUs and hosts writes which arrays are alive at the peak. libtpu writes the arrays that share its temporaries, of
    which not all need be alive at once.
    """
    found = _live(folder) or _assigned(folder)
    sources = Sources(text)
    instructions = {one.name: one for place in module.computations.values() for one in place.instructions.values()}
    return [
        _buffer(size, index, instructions.get(name), name=name, sources=sources)
        for name, index, size in sorted(found, key=lambda one: -one[2])[:MOST]
    ]


def _live(folder: Path) -> list[tuple[str, str, int]]:
    """(name, index in its tuple, bytes) of the arrays at the peak of the largest program."""
    best: list[tuple[str, str, int]] = []
    for file in folder.glob(RANGES):
        found, inside = [], False
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            if _PEAK.match(line):
                inside = True
            elif inside:
                match = _LIVE.match(line)
                if match is None:
                    break
                found.append((match[1], match[2], int(match[3])))
        best = max(best, found, key=lambda rows: sum(row[2] for row in rows))
    return best


def _assigned(folder: Path) -> list[tuple[str, str, int]]:
    best: list[tuple[str, str, int]] = []
    for file in folder.glob(ASSIGNMENTS):
        rows = {(name, int(size)) for name, size in _VALUE.findall(file.read_text(encoding="utf-8", errors="replace"))}
        found = [(name, "", size) for name, size in rows]
        best = max(best, found, key=lambda rows: sum(row[2] for row in rows))
    return best


def _buffer(size: int, index: str, made: Instruction | None, *, name: str, sources: Sources) -> Buffer:
    attributes = made.attributes if made is not None else ""
    operation = operation_of(made) if made is not None else ""
    shape = _element(made.shape, index, size) if made is not None else ""
    return Buffer(bytes=size, shape=shape, operation=operation or name, line=sources.line(attributes))


def operation_of(one: Instruction) -> str:
    """The instruction's name in the traced program, such as ``jit(step)/jvp()/while``; empty if the text does not give one."""
    found = _NAME.search(one.attributes)
    return found[1] if found else ""


def _element(shape: str, index: str, size: int) -> str:
    """The array of a shape that ``index`` names, without its layout; of a tuple the first one of ``size`` bytes."""
    arrays = re.findall(r"[a-z][a-z0-9]*\[[0-9,<= ]*\]", shape)
    place = int(index.split(",", maxsplit=1)[0]) if index.split(",", maxsplit=1)[0] else 0
    fitting = [one for one in arrays if shape_bytes(one) == size]
    if place < len(arrays) and (shape_bytes(arrays[place]) == size or not fitting):
        return str(arrays[place])
    return str(fitting[0]) if fitting else ""


@dataclass
class Sources:
    """The tables of source lines at the head of an executable's text."""

    text: str

    def line(self, attributes: str) -> str:
        """FILE:LINE of an instruction; the innermost frame."""
        if match := _LINE.search(attributes):
            return f"{Path(match[1]).name}:{match[2]}"
        frame = _FRAME.search(attributes)
        location = self._frames.get(frame[1]) if frame else None
        file, line = self._locations.get(location, ("", "")) if location else ("", "")
        return f"{Path(self._files[file]).name}:{line}" if file in self._files else ""

    @cached_property
    def _files(self) -> dict[str, str]:
        return dict(re.findall(r'^(\d+) "(.*)"$', self._table("FileNames"), re.MULTILINE))

    @cached_property
    def _locations(self) -> dict[str, tuple[str, str]]:
        rows = re.findall(r"^(\d+) \{file_name_id=(\d+) .*?\bline=(\d+)", self._table("FileLocations"), re.MULTILINE)
        return {number: (file, line) for number, file, line in rows}

    @cached_property
    def _frames(self) -> dict[str, str]:
        return dict(re.findall(r"^(\d+) \{file_location_id=(\d+)", self._table("StackFrames"), re.MULTILINE))

    def _table(self, name: str) -> str:
        start = self.text.find(f"\n{name}\n")
        return "" if start < 0 else self.text[start + len(name) + 2 : self.text.find("\n\n", start + 2)]
