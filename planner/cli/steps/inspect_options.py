"""The options of ``lcplan inspect`` that only some of its subjects take: a part, a whole step, or a profile."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

Subject = Literal["part", "step", "profile"]
_PART_OR_STEP: tuple[Subject, ...] = ("part", "step")
SUBJECTS: Mapping[str, tuple[Subject, ...]] = MappingProxyType(
    {
        **dict.fromkeys(("shape", "sharding", "op", "axis", "sharding_mode", "collective_matmul", "scheme"), ("part",)),
        **dict.fromkeys(("hlo", "page", "step", "knob", "devices", "seq", "global_batch"), ("step",)),
        **dict.fromkeys(("hw", "mesh", "flag", "toolchain"), _PART_OR_STEP),
        "program": ("profile",),
    }
)
"""The subjects that take each option; all take the others."""


def foreign(options: Mapping[str, Any], subject: Subject) -> list[str]:
    """Return the options on the command line that a subject does not take, as they are written.

    Examples
    --------
    >>> foreign({"shape": "B=8", "hlo": None, "mesh": ""}, "step")
    ['--shape']
    """
    return [_written(name) for name, takers in SUBJECTS.items() if options.get(name) and subject not in takers]


def given_of(options: Mapping[str, Any], subject: Subject) -> list[str]:
    """Return the options on the command line that only this subject takes, as they are written."""
    return [_written(name) for name, takers in SUBJECTS.items() if options.get(name) and takers == (subject,)]


def _written(name: str) -> str:
    return f"--{name.replace('_', '-')}"
