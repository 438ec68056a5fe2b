"""A trainer's own step, compiled by its own command for hardware that is absent, and the memory that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from planner.trainers import Job


@dataclass(frozen=True)
class OwnCompiler:
    """How a trainer compiles the exported file."""

    label: str
    """The trainer's name in tables."""
    command: str
    """The trainer's name of the command, for messages."""
    target: Callable[[Job], str]
    """The trainer's name of the hardware."""
    words: Callable[[Job], tuple[str, ...]]
    """Arguments after the Python on the command line."""
    environment: Mapping[str, str]
    read_memory: Callable[[str], Mapping[str, int] | None]
    """``argument``, ``output``, ``temp`` and ``alias`` [bytes] a device from the command's output; None: it printed none."""


@dataclass(frozen=True)
class OwnMemory:
    """``memory_analysis()`` of a trainer's own step, per device [bytes]."""

    label: str
    topology: str
    argument_bytes: int
    output_bytes: int
    temp_bytes: int
    alias_bytes: int
    seconds: float

    @property
    def total_bytes(self) -> int:
        """Argument + output + temp - alias."""
        return self.argument_bytes + self.output_bytes + self.temp_bytes - self.alias_bytes

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document."""
        fields = ("topology", "argument_bytes", "output_bytes", "temp_bytes", "alias_bytes", "total_bytes", "seconds")
        return {name: getattr(self, name) for name in fields}
