"""Every key that a trainer's version knows (``keys.txt`` of its folder, listed from its package), and the role of each.

A key is read, has no part in the price, or is answered with a note; ``key_roles.py`` of a trainer's folder has the lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib import import_module
from typing import Any

from lcplan.formats.text import few
from planner.trainers.registry import folder_of, package_of


@lru_cache(maxsize=8)
def known_keys(trainer: str) -> frozenset[str]:
    """The keys of a trainer, nested ones with their section before a dot."""
    lines = (folder_of(trainer) / "keys.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def unknown_keys(trainer: str, keys: Iterable[str]) -> tuple[str, ...]:
    """List the ``keys`` that the trainer does not know, each with the nearest known one; of many the first few."""
    known = known_keys(trainer)
    strange = (key for key in keys if key not in known)
    return few(strange, lambda key: f"{key:.80}{_near(key, known)}")


def _near(key: str, known: frozenset[str]) -> str:
    """The one nearest key of the same section, where one is near enough to be a slip of the pen."""
    section = key.rpartition(".")[0]
    near = get_close_matches(key, [name for name in known if name.rpartition(".")[0] == section], n=1, cutoff=0.8)
    return f" (did you mean {near[0].removeprefix(f'{section}.')!r}?)" if near else ""


@dataclass(frozen=True)
class Noted:
    """A key whose effect lcplan does not price."""

    words: str
    """The effect, after the key and its value."""
    unless: tuple[str, ...] = ()
    """Values, as the file writes them, that have no such effect."""
    takes_memory: bool = False
    """Whether it takes memory that is not priced, so that lcplan gives no verdict."""


@dataclass(frozen=True)
class Roles:
    """The keys of one trainer by their role; ``*`` in a key of ``harmless`` matches any text."""

    read: frozenset[str]
    harmless: Mapping[str, str]
    """Keys, separated by blanks, by the reason why memory and time do not depend on them."""
    noted: Mapping[str, Noted] = field(default_factory=dict)

    def reason(self, key: str) -> str | None:
        """Why a key has no part in the price; None: no list of harmless keys has it."""
        found = (reason for reason, keys in self.harmless.items() if any(fnmatchcase(key, one) for one in keys.split()))
        return next(found, None)

    def roles(self, key: str) -> list[str]:
        """Every role of a key; one, where the lists are complete and agree."""
        found = ["read"] * (key in self.read) + ["noted"] * (key in self.noted)
        return found or ["harmless"] * (self.reason(key) is not None)


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


def roles_of(trainer: str) -> Roles:
    """The roles of a trainer's keys."""
    found: Roles = import_module(f"{package_of(trainer)}.key_roles").ROLES
    return found


def notes_on(trainer: str, settings: Mapping[str, Any], *, option: str = "", takes_memory: bool = False) -> list[str]:
    """List a note for each setting that is not priced.

    Parameters
    ----------
    trainer
        Whose keys.
    settings
        Values by key, nested ones with their section before a dot.
    option
        Text before a key, as ``--``.
    takes_memory
        Whether to list the keys that take memory without a price, in place of the others.
    """
    noted = roles_of(trainer).noted
    texts = {key: _text(value) for key, value in settings.items() if key in noted and noted[key].takes_memory == takes_memory}
    return [
        f"{option}{key}{f' {text}' * bool(text)}: {noted[key].words}"
        for key, text in texts.items()
        if text.lower() not in {value.lower() for value in noted[key].unless}
    ]


def _text(value: Any) -> str:
    """A value as a file writes it; a list of words joined by blanks."""
    words: Iterable[Any] = value if isinstance(value, list | tuple) else (value,)
    return " ".join(str(word) for word in words)[:60]
