"""Near names: the end of every message about an unknown name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

NEAR = "; did you mean "
MANY = 12
"""Longest list of known names that a message gives in full where no name is near."""


def hint(word: str, known: Iterable[str]) -> str:
    """The hint at the end of a message about an unknown name: near names, else the known ones.

    >>> hint("lama3-8b", ["llama3-8b", "qwen3-8b"])
    "; did you mean 'llama3-8b'?"
    >>> hint("zzz", ["data", "fsdp"])
    '; known: data, fsdp'
    """
    names = sorted(set(known))
    lower = {name.lower(): name for name in names}
    near = [lower[name] for name in get_close_matches(word.lower(), lower, n=3, cutoff=0.6)]
    if near:
        return f"{NEAR}{' or '.join(repr(name) for name in near)}?"
    if not names:
        return ""
    more = f", ... ({len(names)} in all)" if len(names) > MANY else ""
    return f"; known: {', '.join(names[:MANY])}{more}"
