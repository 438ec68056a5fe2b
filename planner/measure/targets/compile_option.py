"""Option: one flag of XLA, by the name and the values that each way of giving it takes, and the jax that knows it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Version = tuple[int, ...]
Verdict = Literal[True] | str
"""True, or why not."""


@dataclass(frozen=True)
class Option:
    """One compiler option. ``proto`` is the value for ``compiler_options``, ``flag`` the one for a variable: they differ."""

    name: str
    proto: str | bool
    flag: str
    first: Version
    last: Version | None
    """Last jax in which the option has an effect; None: still there in 0.12."""

    def known_to(self, version: Version) -> bool:
        """Whether the option has an effect in this jax."""
        return version >= self.first and (self.last is None or version <= self.last)

    @property
    def word(self) -> str:
        """The option as a word of XLA_FLAGS or LIBTPU_INIT_ARGS."""
        return f"--{self.name}={self.flag}"


def version_of(text: str) -> Version:
    """``0.10.1`` or ``0.12.0.1.dev3`` as numbers.

    >>> version_of("0.12.0.1.dev3")
    (0, 12, 0, 1)
    """
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else (0,)


def dotted(version: Version) -> str:
    """A version as people write it."""
    return ".".join(str(part) for part in version)


def active(options: Iterable[Option], jax_version: str) -> tuple[Option, ...]:
    """Options that this jax knows."""
    version = version_of(jax_version)
    return tuple(option for option in options if option.known_to(version))
