"""A MaxText configuration as people have it: a YAML file over another, or the command line that its scripts end in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lcplan.formats.booleans import unquoted
from lcplan.formats.errors import BadInputError
from lcplan.formats.textfile import parse_yaml, read_text, read_yaml
from planner.shell.launch import NO_LAUNCH, Launch
from planner.shell.script import Command, Word
from planner.shell.trainer_words import trainer_words
from planner.trainers.common.known_keys import known_keys
from planner.trainers.maxtext.reading.flags import COMPILE_KEY, VARIABLES
from planner.trainers.wrappers.primus import Wrapped, wrapped_in

_WORD = re.compile(r"([a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*)=(.*)", re.DOTALL)
"""A key and its value on a command line, of a section before dots; the shell's own variables are in capitals."""
_FORMS = "it must be a YAML mapping of keys to values, or a command with key=value words"
_BASE = re.compile(r"\S*?([\w.-]+\.ya?ml)$")


@dataclass(frozen=True)
class Said:
    """The keys and values that a file sets."""

    values: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    unknown: Mapping[str, Word] = field(default_factory=dict)
    """Keys whose values only a shell knows."""
    launch: Launch = NO_LAUNCH
    program: str = ""
    """The module or file that the command runs."""


def said(file: Path) -> Said:
    """Return the keys and values that a file sets.

    Raises
    ------
    BadInputError
        Neither a YAML mapping nor a command with ``key=value`` words.
    """
    if file.suffix in (".yml", ".yaml", ".json"):
        return _merged(file)
    text = read_text(file)
    if _WORD.search(text):
        return _command(text, file)
    try:
        return _merged(file)
    except BadInputError:
        raise BadInputError(f"{file}: not a MaxText configuration; {_FORMS}") from None


def _command(text: str, file: Path) -> Said:
    """The words of a script or a command line. Values that only a shell knows are kept apart."""
    known = known_keys("maxtext")
    script = trainer_words(text, str(file), knows=lambda word: "=" in word and re.split("[.=]", word)[0] in known)
    if script.command is not None and "maxdiffusion" in script.command.program.lower():
        raise BadInputError(f"{file}: {script.command.program} is MaxDiffusion's, which trains no language model")
    found: dict[str, Any] = {}
    under: dict[str, Any] = {}
    notes, unknown = list(script.notes), dict[str, Word]()
    for word in script.words:
        match, base = _WORD.fullmatch(word.text), _BASE.fullmatch(word.text)
        if match and word.unknown:
            unknown[match[1]] = word
        elif match:
            _put(found, match[1], value=unquoted(parse_yaml(match[2], f"{file}: {match[1]}")) if match[2] else "")
            unknown.pop(match[1], None)
        elif base and base[1] != "base.yml" and not word.unknown and (file.parent / word.text).is_file():
            more = _merged(file.parent / word.text)
            under, notes = dict(more.values), [*notes, *more.notes]
        elif base and base[1] != "base.yml":
            notes.append(f"{word.text}: its keys were not read; put them into the file")
    if not found and not under:
        raise BadInputError(f"{file}: no key=value that MaxText's command line takes")
    flags = _flags(script.command)
    if flags:
        found[COMPILE_KEY] = " ".join([str(found.get(COMPILE_KEY, under.get(COMPILE_KEY, ""))), *flags]).strip()
    program = "" if script.command is None else script.command.program
    return Said({**under, **found}, tuple(notes), unknown, script.launch, program)


def _put(found: dict[str, Any], key: str, *, value: Any) -> None:
    """Set a key, in the section that it names before a dot."""
    first, _, rest = key.partition(".")
    if not rest:
        found[first] = value
        return
    if not isinstance(found.get(first), dict):
        found[first] = {}
    _put(found[first], rest, value=value)


def _flags(command: Command | None) -> list[str]:
    """The flags of the compiler in the command's environment; flags that only a shell knows are left out."""
    if command is None:
        return []
    texts = [command.environment[name] for name in VARIABLES if name in command.environment]
    return [flag for word in texts for flag in word.text.split() if flag.startswith("--") and "$" not in flag]


def _merged(file: Path, above: tuple[Path, ...] = ()) -> Said:
    """Return the file merged over its ``base_config`` files in the same folder; ``above`` are the files that named it."""
    data = unquoted(read_yaml(file))
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise BadInputError(f"{file}: not a MaxText configuration; {_FORMS}")
    wrapped = wrapped_in(data, "maxtext", file=file)
    if wrapped is not None:
        return Said(_with_model(wrapped), wrapped.notes)
    base, chain = data.get("base_config"), (*above, file.resolve())
    if base in (None, "base.yml"):
        return Said(data)
    beside = file.parent / str(base)
    if not beside.is_file():
        return Said(data, (f"base_config {base} is not in the folder of {file}: its keys were not read",))
    if beside.resolve() in chain:
        raise BadInputError(f"{file}: base_config {base} leads round to a file that leads here; leave it out")
    under = _merged(beside, chain)
    return Said({**under.values, **data}, under.notes)


def _with_model(wrapped: Wrapped) -> Mapping[str, Any]:
    """The settings of a Primus file; a model's preset that is not here has the name of MaxText's model."""
    if "model_name" in wrapped.values or not wrapped.model:
        return wrapped.values
    return {**wrapped.values, "model_name": wrapped.model.rpartition(".")[0].lower().replace("_", "-")}
