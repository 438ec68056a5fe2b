"""Bytes of a shared library whose functions do nothing but fail: the replacement of one that a compile loads and never calls.

The plugin of XLA for AMD links HIP, RCCL, hipBLASLt and others, which come with ROCm. A compile for an absent device loads them
and does not call them, apart from the registration of the plugin's own kernels. The library is written here, section by
section, by the System V ABI (gABI chapters 4 and 5, AMD64 supplement) and the GNU versioning of symbols (LSB core, 10.7), so
that neither a compiler nor a binary of others is needed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

PAGE = 4096
FAILS = 100
"""``hipErrorNoDevice``; in the other libraries any code but 0 is a failure too."""
TEXTS = frozenset(
    {
        "hipGetErrorString",
        "hipGetErrorName",
        "ncclGetErrorString",
        "ncclGetLastError",
        "miopenGetErrorString",
        "amdgpu_get_marketing_name",
    }
)
"""Functions that return a C string, which a caller may print."""
ABSENT = frozenset({"numa_available"})
"""Functions whose failure is -1 (numa(3)); with any other value the library works."""

_TEXT = b"lcplan's stand-in for ROCm\0"
_CODE = (
    (
        b"\xb8" + struct.pack("<i", FAILS) + b"\xc3"  # mov eax, FAILS; ret
        b"\xb8" + struct.pack("<i", -1) + b"\xc3"  # mov eax, -1; ret
        b"\x48\x8d\x05" + struct.pack("<i", 1) + b"\xc3"  # lea rax, [rip + 1]; ret: the text is behind
    )
    + _TEXT
)
_STARTS = {"fails": 0, "absent": 6, "text": 12}
_LOAD, _DYN, _STACK = 1, 2, 0x6474E551
_READ, _WRITE, _RUN = 4, 2, 1
_HASH, _STRTAB, _SYMTAB, _STRSZ, _SYMENT, _SONAME = 4, 5, 6, 10, 11, 14
_VERSYM, _VERDEF, _VERDEFNUM = 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFD
_BASE = 1
_GLOBAL_FUNCTION = (1 << 4) | 2
_HEADER = 64 + 3 * 56
"""Bytes of the file's header and of its three segments'."""


@dataclass(frozen=True)
class StandIn:
    """A library by its ``soname``; ``functions`` are (version, name), the version empty for a function without one."""

    soname: str
    functions: tuple[tuple[str, str], ...]

    def image(self) -> bytes:
        """Return the file: one segment to read and run with the tables and the code, one to write with the dynamic section."""
        names = _Names()
        versions = tuple(dict.fromkeys(version for version, _ in self.functions if version))
        tables = [_versions_of(self.functions, versions), _definitions(self.soname, versions, names)] if versions else []
        symbols = [(names.at(name), _kind(name)) for _, name in self.functions]
        soname = names.at(self.soname)
        text = bytes(names.data)
        parts = [_symbols(symbols, 0), text, _hash(len(symbols)), *tables, _CODE]
        *places, end = _places(_HEADER, map(len, parts))
        parts[0] = _symbols(symbols, places[-1])
        body = bytearray(end + -end % PAGE)
        for place, part in zip(places, parts, strict=True):
            body[place : place + len(part)] = part
        entries = [(_SONAME, soname), (_HASH, places[2]), (_STRTAB, places[1]), (_SYMTAB, places[0])]
        entries += [(_STRSZ, len(text)), (_SYMENT, 24)]
        if tables:
            entries += [(_VERSYM, places[3]), (_VERDEF, places[4]), (_VERDEFNUM, 1 + len(versions))]
        dynamic = b"".join(struct.pack("<QQ", *entry) for entry in (*entries, (0, 0)))
        header = _header(len(body), len(dynamic))
        body[: len(header)] = header
        return bytes(body) + dynamic


class _Names:
    """A table of strings."""

    def __init__(self) -> None:
        self.data = bytearray(b"\0")

    def at(self, name: str) -> int:
        place = len(self.data)
        self.data += name.encode() + b"\0"
        return place


def _kind(name: str) -> str:
    return "text" if name in TEXTS else "absent" if name in ABSENT else "fails"


def _places(start: int, sizes: Iterable[int]) -> list[int]:
    """Starts of parts of these sizes, each at a multiple of 16, and the end."""
    places = [start]
    for size in sizes:
        places[-1] += -places[-1] % 16
        places.append(places[-1] + size)
    return places


def _symbols(symbols: Iterable[tuple[int, str]], code: int) -> bytes:
    rows = (struct.pack("<IBBHQQ", name, _GLOBAL_FUNCTION, 0, 1, code + _STARTS[kind], 1) for name, kind in symbols)
    return bytes(24) + b"".join(rows)


def _hash(count: int) -> bytes:
    """One bucket, whose chain holds every symbol."""
    chain = [0, *range(2, count + 1), 0] if count else [0]
    return struct.pack(f"<{3 + len(chain)}I", 1, len(chain), 1 if count else 0, *chain)


def _versions_of(functions: Iterable[tuple[str, str]], versions: tuple[str, ...]) -> bytes:
    """The version of each symbol: 1 is the library's own, the others follow."""
    index = {"": 1} | {version: 2 + at for at, version in enumerate(versions)}
    numbers = [0, *(index[version] for version, _ in functions)]
    return struct.pack(f"<{len(numbers)}H", *numbers)


def _definitions(soname: str, versions: tuple[str, ...], names: _Names) -> bytes:
    rows = []
    for at, version in enumerate((soname, *versions)):
        following = 28 if at < len(versions) else 0
        row = struct.pack("<HHHHIII", 1, _BASE if at == 0 else 0, at + 1, 1, _elf_hash(version), 20, following)
        rows.append(row + struct.pack("<II", names.at(version), 0))
    return b"".join(rows)


def _elf_hash(name: str) -> int:
    """The hash of the gABI, which the loader compares.

    >>> _elf_hash("GLIBC_2.2.5") == 0x09691A75
    True
    """
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


def _header(body: int, dynamic: int) -> bytes:
    segments = (
        (_LOAD, _READ | _RUN, 0, 0, 0, body, body, PAGE),
        (_LOAD, _READ | _WRITE, body, body, body, dynamic, dynamic, PAGE),
        (_DYN, _READ | _WRITE, body, body, body, dynamic, dynamic, 8),
    )
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    head = struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, len(segments), 64, 0, 0)
    return ident + head + b"".join(struct.pack("<IIQQQQQQ", *segment) for segment in segments)
