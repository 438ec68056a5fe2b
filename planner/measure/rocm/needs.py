"""The libraries, versions and functions that a shared library of x86-64 Linux needs, read from its ELF tables."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

X86_64 = 62
_DYNAMIC, _DYNSYM, _VERSYM, _VERNEED = 6, 11, 0x6FFFFFFF, 0x6FFFFFFE
_DT_NEEDED = 1
_GLOBAL = 1
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
"""name, info, other, section index, value, size (System V ABI, AMD64 supplement, and gABI chapter 4)."""


class NotElfError(ValueError):
    """The file is no shared library of x86-64 Linux."""


@dataclass(frozen=True)
class Needs:
    """``libraries`` in order; ``versioned`` is (library, version, function); ``plain`` are functions of any library."""

    libraries: tuple[str, ...]
    versioned: tuple[tuple[str, str, str], ...]
    plain: tuple[str, ...]


@dataclass(frozen=True)
class _Section:
    kind: int
    offset: int
    size: int
    link: int
    info: int


def needs_of(path: Path) -> Needs:
    """Return all that the dynamic loader must find before it opens the library.

    Weak symbols are left out: the loader does without them.

    Raises
    ------
    NotElfError
        The file is cut short, or is for another processor or system.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Library(data).needs()
    except (struct.error, ValueError, IndexError) as error:
        raise NotElfError(f"{path}: no shared library of x86-64 Linux: {error}") from None


class _Library:
    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        magic, machine = data[:6], struct.unpack_from("<H", data, 18)[0]
        if magic != b"\x7fELF\x02\x01" or machine != X86_64:
            raise ValueError(f"it starts with {magic!r}, machine {machine}")
        start = struct.unpack_from("<Q", data, 40)[0]
        size, count = struct.unpack_from("<HH", data, 58)
        self.sections = [self._section(start + size * index) for index in range(count)]

    def _section(self, at: int) -> _Section:
        _, kind, _, _, offset, size, link, info, _, _ = _SECTION.unpack_from(self.data, at)
        return _Section(kind, offset, size, link, info)

    def _of(self, kind: int) -> _Section | None:
        return next((one for one in self.sections if one.kind == kind), None)

    def _text(self, table: int, at: int) -> str:
        start = self.sections[table].offset + at
        return self.data[start : self.data.find(b"\0", start)].decode()

    def needs(self) -> Needs:
        """Read the dynamic section, the versions and the undefined symbols."""
        versions = dict(self._versions())
        versioned, plain = [], []
        for name, version in self._undefined():
            if version in versions:
                versioned.append((*versions[version], name))
            else:
                plain.append(name)
        return Needs(tuple(self._libraries()), tuple(versioned), tuple(plain))

    def _libraries(self) -> Iterator[str]:
        dynamic = self._of(_DYNAMIC)
        if dynamic is None:
            raise ValueError("no dynamic section")
        for at in range(dynamic.offset, dynamic.offset + dynamic.size, 16):
            tag, value = struct.unpack_from("<QQ", self.data, at)
            if tag == _DT_NEEDED:
                yield self._text(dynamic.link, value)

    def _versions(self) -> Iterator[tuple[int, tuple[str, str]]]:
        """Index of each needed version, with its library and name."""
        needed = self._of(_VERNEED)
        at = needed.offset if needed else 0
        for _ in range(needed.info if needed else 0):
            _, count, file, first, following = struct.unpack_from("<HHIII", self.data, at)
            entry = at + first
            for _ in range(count):
                _, _, index, name, step = struct.unpack_from("<IHHII", self.data, entry)
                assert needed is not None
                yield index, (self._text(needed.link, file), self._text(needed.link, name))
                entry += step
            at += following

    def _undefined(self) -> Iterator[tuple[str, int]]:
        """Undefined global symbols, each with the index of its version."""
        symbols, versions = self._of(_DYNSYM), self._of(_VERSYM)
        if symbols is None:
            raise ValueError("no dynamic symbols")
        for index in range(1, symbols.size // _SYMBOL.size):
            name, info, _, section, _, _ = _SYMBOL.unpack_from(self.data, symbols.offset + index * _SYMBOL.size)
            if section or info >> 4 != _GLOBAL:
                continue
            version = struct.unpack_from("<H", self.data, versions.offset + 2 * index)[0] & 0x7FFF if versions else 0
            yield self._text(symbols.link, name), version
