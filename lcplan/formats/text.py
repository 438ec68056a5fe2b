"""Text of a person or of a shared file: one line of characters that can be printed, and its form in code and shell.

A name from a plan or spec goes into scripts, comments and modules. A line break would end a comment, so no name has one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field

_SHELL_SPECIAL = re.compile(r'([\\$`"])')


def one_line(text: str) -> str:
    """Return ``text`` if every character can be printed.

    Controls, line and paragraph separators and invisible characters that reorder text (Unicode Cc, Cf, Zl, Zp) cannot.

    Raises
    ------
    ValueError
        A character cannot be printed.
    """
    for character in text:
        if not character.isprintable():
            raise ValueError(f"character {character!a} in {text[:60]!a} cannot be printed; use plain text on one line")
    return text


Line = Annotated[str, AfterValidator(one_line)]
DIGITS = 18
"""Digits of the longest whole number that is read, below 2^63. Python refuses to read thousands."""
T = TypeVar("T")
FEW = 40
"""Lines of one kind that are shown."""
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""A name of an environment variable (POSIX, Base Definitions 3.216)."""


def whole_in(text: str) -> int | None:
    """Return the whole number that ``text`` writes in decimal digits; None for other text, and above ``DIGITS`` digits.

    >>> whole_in("32"), whole_in("-1"), whole_in("9" * 5000)
    (32, None, None)
    """
    return int(text) if text.isdecimal() and len(text) <= DIGITS else None


def few(items: Iterable[T], line: Callable[[T], str] = str, *, most: int = FEW) -> tuple[str, ...]:
    """Return the lines of the first ``most`` items, and a line that counts the others.

    >>> few(["a", "b", "c"], most=1)
    ('a', 'and 2 more')
    """
    every = iter(items)
    first = tuple(line(item) for item in islice(every, most))
    others = sum(1 for _ in every)
    return (*first, f"and {others} more") if others else first


def shell_text(text: str) -> str:
    """Return ``text`` in double quotes, for a shell to read as it is (POSIX shell command language, 2.2.3).

    >>> print(shell_text('--flag=$(date) "x"'))
    "--flag=\\$(date) \\"x\\""
    """
    escaped = _SHELL_SPECIAL.sub(r"\\\1", text)
    return f'"{escaped}"'


def python_text(text: str) -> str:
    """Return ``text`` as a string of Python source, in double quotes.

    >>> python_text('a "b" \\\\')
    '"a \\\\"b\\\\" \\\\\\\\"'
    """
    return json.dumps(text, ensure_ascii=False)


def docstring_text(text: str) -> str:
    """Return ``text`` for the inside of a Python docstring, which it cannot end."""
    return python_text(text)[1:-1]
