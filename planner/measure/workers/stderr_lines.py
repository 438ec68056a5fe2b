"""Useful lines of a worker's stderr: warnings worth keeping, last words of a dead process; the rest is noise."""

from __future__ import annotations

import re

MAX_WORDS = 400
_NOISE = re.compile(
    r"cudart_stub|InitializeLog|InitGoogle|could not determine TPU|Failed to find host bounds|Source Location Trace"
    r"|libtpu_init_utils|unexpected worker hostname|^\s*$|^\*\*\*|^\s+@\s|^WARNING: All log messages|SortRewriter"
    r"|cpu_aot_loader|^Fatal Python error|^Current thread|^Thread 0x|^  File |^Extension modules"
)
_FATAL = re.compile(r"^F\d{4} |Check failed|CHECK failure|Unknown flags? in|terminate called|what\(\):|MemoryError|^\w*Error: ")
_PREFIX = re.compile(r"^[A-Z]\d{4} [\d:.]+\s+\d+ [\w./-]+:\d+\] ")
_REFUSAL = re.compile(r"^Jax plugin configuration error: .*\nTraceback .*\n(?:[ \t].*\n)*.*\n?", re.MULTILINE)
"""A plugin without its device, as jax reports it: the plugin for AMD in a process that compiles for something else."""
_REMAT = re.compile(r"[Ii]nvoluntary full rematerialization")


def warnings_in(stderr: str) -> tuple[str, ...]:
    """Warnings about the program: SPMD had to replicate a tensor in full."""
    count = sum(1 for line in stderr.splitlines() if _REMAT.search(line))
    if not count:
        return ()
    return (f"involuntary full rematerialization: the partitioner replicates a tensor on every device ({count} places)",)


def last_words(stderr: str) -> str:
    """The fatal line where there is one, else the last line that is not noise; empty where all of it is."""
    lines = [line for line in _REFUSAL.sub("", stderr).splitlines() if not _NOISE.search(line)]
    fatal = [line for line in lines if _FATAL.search(line)]
    words = _PREFIX.sub("", (fatal or lines or [""])[-1] if not fatal else fatal[0]).strip()
    return words if len(words) <= MAX_WORDS else words[: MAX_WORDS - 3] + "..."
