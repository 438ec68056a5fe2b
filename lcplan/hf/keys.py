"""Typed reading of a config's keys, with every problem collected."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_ABSENT = object()


class Keys:
    """One config as it is read: each getter returns a usable value and notes the faults of the real one."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.used: set[str] = set()

    def get(self, key: str) -> Any:
        """The raw value, None where absent."""
        self.used.add(key)
        return self.config.get(key)

    def has(self, key: str) -> bool:
        """Whether the config has the key and its value is not null."""
        return self.config.get(key) is not None

    def whole(self, key: str, *, largest: int, default: int | None = None) -> int:
        """A whole number in 1..largest. Absent or null: ``default``, or a problem if there is no default."""
        value = self.get(key)
        if value is None:
            if default is None:
                self.problems.append(f"missing key {key!r}")
                return 1
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= largest:
            self.problems.append(f"{key}: {_show(value)} is not a whole number from 1 to {largest}")
            return 1
        return value

    def maybe_whole(self, key: str, *, largest: int) -> int | None:
        """Like ``whole``; None where the key is absent or null."""
        return self.whole(key, largest=largest) if self.has(key) else None

    def number(self, key: str, *, default: float, inside: Mapping[str, Any] | None = None, where: str = "") -> float:
        """A finite number above zero, of the config or of a mapping inside it."""
        source = self.config if inside is None else inside
        if inside is None:
            self.used.add(key)
        value = source.get(key)
        if value is None:
            return default
        good = isinstance(value, int | float) and not isinstance(value, bool)
        if not good or not math.isfinite(_as_float(value)) or value <= 0:
            self.problems.append(f"{where}{key}: {_show(value)} is not a finite number above zero")
            return default
        return float(value)

    def flag(self, key: str, *, default: bool) -> bool:
        """True or false."""
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.problems.append(f"{key}: {_show(value)} is not true or false")
            return default
        return value


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _show(value: Any) -> str:
    text = str(value) if isinstance(value, float) else repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
