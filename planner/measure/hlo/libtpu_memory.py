"""Temporaries of a TPU executable, from libtpu's buffer assignment.

``memory_analysis()`` counts fragmentation twice (jax 0.10.1, libtpu 0.0.41).
Example: libtpu's own buffer assignment gives 1.94 GiB of temporaries, 0.50 GiB of it fragmentation; ``memory_analysis()``
returns 2.44 GiB. The smaller figure decides whether a program fits: ``Used 15.91G of 15.75G hbm`` is its sum with arguments
and outputs.
"""

from __future__ import annotations

import re
from pathlib import Path

_TEMPORARY = re.compile(r"^allocation \d+: size (\d+)(.*?), preallocated-temp", re.MULTILINE)
"""A temporary: its size, and further words up to its kind."""
_IN_HBM = re.compile(r"(, page \d+)?")
"""The further words of a temporary in HBM; libtpu 0.0.48 has a page there, 0.0.41 has no words."""
_ELSEWHERE = re.compile(r", color \d+(, page \d+)?")
"""The further words of a temporary in another memory."""
_ASSIGNMENTS = "*after_optimizations-buffer-assignment.txt"


def dump_options(folder: str) -> dict[str, str | bool]:
    """Compiler options under which an executable's buffer assignment is written to ``folder``."""
    return {"xla_dump_to": folder, "xla_dump_hlo_as_text": True}


def temporaries(folder: Path) -> int | None:
    """Temporaries in HBM of the largest program that was dumped, in bytes.

    None without a buffer assignment, and where one is in a format that is not known: its temporaries must not count as zero.
    """
    found = [text for path in folder.glob(_ASSIGNMENTS) if (text := path.read_text(encoding="utf-8", errors="replace"))]
    sizes = [_in_hbm(text) for text in found]
    known = [size for size in sizes if size is not None]
    return max(known, default=None) if len(known) == len(sizes) else None


def _in_hbm(text: str) -> int | None:
    total = 0
    for size, words in _TEMPORARY.findall(text):
        if _IN_HBM.fullmatch(words):
            total += int(size)
        elif not _ELSEWHERE.fullmatch(words):
            return None
    return total
