"""Every key that a trainer's version knows: ``keys.txt`` of its folder, listed from its package."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache

from planner.trainers.registry import folder_of


@lru_cache(maxsize=8)
def known_keys(trainer: str) -> frozenset[str]:
    """The keys of a trainer, nested ones with their section before a dot."""
    lines = (folder_of(trainer) / "keys.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def unknown_keys(trainer: str, keys: Iterable[str]) -> tuple[str, ...]:
    """List the ``keys`` that the trainer does not know, each with the nearest known one."""
    known = known_keys(trainer)
    strange = (key for key in keys if key not in known)
    return tuple(f"{key}{_near(key, known)}" for key in strange)


def _near(key: str, known: frozenset[str]) -> str:
    """The one nearest key of the same section, where one is near enough to be a slip of the pen."""
    section = key.rpartition(".")[0]
    near = get_close_matches(key, [name for name in known if name.rpartition(".")[0] == section], n=1, cutoff=0.8)
    return f" (did you mean {near[0].removeprefix(f'{section}.')!r}?)" if near else ""
