"""A MaxText configuration as people have it: a YAML file over another, or the command line that its scripts end in."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from lcplan.formats.booleans import unquoted
from lcplan.formats.errors import BadInputError
from lcplan.formats.textfile import parse_yaml, read_text, read_yaml
from planner.trainers.maxtext.read_flags import COMPILE_KEY, words_in

_WORD = re.compile(r"([a-z][a-z0-9_]*)=(.*)", re.DOTALL)
"""A key and its value on a command line; the shell's own variables are in capitals."""
_CONTINUED = re.compile(r"\\\r?\n")
_FORMS = "it must be a YAML mapping of keys to values, or a command with key=value words"
_BASE = re.compile(r"\S*?([\w.-]+\.ya?ml)$")


def said(file: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the keys and values that a file sets, and notes on them.

    Raises
    ------
    BadInputError
        Neither a YAML mapping nor a command with ``key=value`` words.
    """
    found, notes = _said(file)
    return unquoted(found), notes


def _said(file: Path) -> tuple[dict[str, Any], list[str]]:
    if file.suffix in (".yml", ".yaml", ".json"):
        return _merged(file)
    text = read_text(file)
    if _WORD.search(text):
        return _command(text, file)
    try:
        return _merged(file)
    except BadInputError:
        raise BadInputError(f"{file}: not a MaxText configuration; {_FORMS}") from None


def _command(text: str, file: Path) -> tuple[dict[str, Any], list[str]]:
    """The words of a script or a command line. Values that the shell would fill in are unknown here."""
    try:
        words = shlex.split(_CONTINUED.sub("", text), comments=True)
    except ValueError as error:
        raise BadInputError(f"{file}: not a command line: {error}") from None
    found: dict[str, Any] = {}
    under: dict[str, Any] = {}
    notes: list[str] = []
    for word in words:
        match, base = _WORD.fullmatch(word), _BASE.fullmatch(word)
        if match and "$" in match[2]:
            notes.append(f"{match[1]}={match[2]}: the shell fills it in, so it was not read; write its value")
        elif match:
            found[match[1]] = parse_yaml(match[2], f"{file}: {match[1]}") if match[2] else ""
        elif base and base[1] != "base.yml" and (file.parent / word).is_file():
            under, more = _merged(file.parent / word)
            notes += more
        elif base and base[1] != "base.yml":
            notes.append(f"{word}: its keys were not read; put them into the file")
    if not found and not under:
        raise BadInputError(f"{file}: no key=value that MaxText's command line takes")
    flags = words_in(words)
    if flags:
        found[COMPILE_KEY] = " ".join([str(found.get(COMPILE_KEY, under.get(COMPILE_KEY, ""))), *flags]).strip()
    return {**under, **found}, notes


def _merged(file: Path, above: tuple[Path, ...] = ()) -> tuple[dict[str, Any], list[str]]:
    """Return the file merged over its ``base_config`` files in the same folder; ``above`` are the files that named it."""
    data = read_yaml(file)
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise BadInputError(f"{file}: not a MaxText configuration; {_FORMS}")
    base, chain = data.get("base_config"), (*above, file.resolve())
    if base in (None, "base.yml"):
        return data, []
    beside = file.parent / str(base)
    if not beside.is_file():
        return data, [f"base_config {base} is not in the folder of {file}: its keys were not read"]
    if beside.resolve() in chain:
        raise BadInputError(f"{file}: base_config {base} leads round to a file that leads here; leave it out")
    under, notes = _merged(beside, chain)
    return {**under, **data}, notes
