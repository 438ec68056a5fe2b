"""Changes of a value in an expansion: ``${X%.*}``, ``${X/a/b}``, ``${X,,}``."""

from __future__ import annotations

import re
from fnmatch import translate

MOST = 4096
"""Characters of a value that is changed; names and paths are shorter."""


def changed(value: str, operator: str, arguments: list[str]) -> str | None:
    """Return the changed value, or None for a change that is not known here.

    >>> changed("llama3-8b.yml", "%", [".*"])
    'llama3-8b'
    >>> changed("a/b/c", "##", ["*/"])
    'c'
    >>> changed("my_name", "//", ["_", "-"])
    'my-name'
    >>> changed("BF16", ",,", [])
    'bf16'
    """
    if len(value) > MOST or sum(len(one) for one in arguments) > MOST:
        return None
    cases = {"^^": str.upper, ",,": str.lower}
    if operator in cases and not arguments:
        return cases[operator](value)
    if operator in ("^", ",") and not arguments:
        return (value[:1].upper() if operator == "^" else value[:1].lower()) + value[1:]
    if operator in ("%", "%%", "#", "##") and len(arguments) == 1:
        return _cut(value, arguments[0], operator=operator)
    if operator in ("/", "//") and arguments:
        return _replaced(value, arguments[0], by="".join(arguments[1:]), every=operator == "//")
    return None


def _cut(value: str, pattern: str, *, operator: str) -> str:
    """Remove the shortest or longest match at one end."""
    matches = re.compile(translate(pattern)).match
    tail = operator[0] == "%"
    sizes = range(len(value) + 1) if len(operator) == 1 else range(len(value), -1, -1)
    for size in sizes:
        part = value[len(value) - size :] if tail else value[:size]
        if matches(part):
            return value[: len(value) - size] if tail else value[size:]
    return value


def _replaced(value: str, pattern: str, *, by: str, every: bool) -> str | None:
    if any(sign in pattern for sign in "*?["):
        return None
    return value.replace(pattern, by, -1 if every else 1) if pattern else value
