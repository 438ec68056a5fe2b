"""Megatron's arguments: parsed from text, and read as numbers."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from lcplan.formats.booleans import unquoted
from lcplan.formats.errors import BadInputError
from lcplan.formats.text import whole_in
from planner.trainers.common.imported import number, whole

Arguments = dict[str, list[str]]
Number = Callable[[str, int | None], int | None]


def parse(text: str, file: str) -> Arguments:
    """Arguments with their values, in the order of the file; the last of equal names wins, as argparse has it.

    Raises
    ------
    BadInputError
        A quote that is not closed, a shell variable, words before the first argument, or no argument at all.
    """
    found: Arguments = {}
    name: str | None = None
    for word in _split(text.replace("\\\n", " "), file):
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            name = name.replace("_", "-")  # ms-swift writes Megatron's names so, and flags with true or false
            found[name] = [value] if equals else []
        elif "$" in word:
            raise BadInputError(f"{file}: {word!r} is a shell variable; write its value, lcplan runs no shell")
        elif name is None:
            raise BadInputError(f"{file}: {word!r} comes before the first argument; give the arguments without the program")
        else:
            found[name].append(word)
    if not found:
        raise BadInputError(f"{file}: no Megatron argument in it")
    return {name: [] if unquoted(values) == [True] else values for name, values in found.items() if unquoted(values) != [False]}


def _split(text: str, file: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError as error:
        raise BadInputError(f"{file}: not words as a shell reads them: {error}") from None


def numbers(arguments: Arguments, file: str) -> Number:
    """Read a whole number by its argument's name, or return a default if the argument is absent.

    Raises
    ------
    BadInputError
        When it is asked: the argument's value is no whole number above zero.
    """

    def read(name: str, default: int | None) -> int | None:
        values = arguments.get(name)
        if values is None:
            return default
        found = whole_in(values[0]) if len(values) == 1 else None
        if found is None:
            raise BadInputError(f"{file}: --{name} {' '.join(values)[:60]}: not a whole number above zero")
        return whole(found, f"--{name}", file=file)

    return read


def real(arguments: Arguments, name: str, *, default: float, file: str) -> float:
    """Return a number by its argument's name, or a default if the argument is absent.

    Raises
    ------
    BadInputError
        The argument's value is no number.
    """
    values = arguments.get(name)
    if values is None:
        return default
    try:
        (text,) = values
        return number(float(text), f"--{name}", file=file)
    except ValueError:
        raise BadInputError(f"{file}: --{name} {' '.join(values)[:60]}: not a number") from None
