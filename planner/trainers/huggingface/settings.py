"""The settings of a front end's run: a YAML file, or the script that starts it, with the files that its words name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lcplan.formats.booleans import unquoted
from lcplan.formats.errors import BadInputError
from lcplan.formats.textfile import named_beside, parse_yaml, read_text, read_yaml
from planner.shell.script import Word
from planner.shell.trainer_words import TrainerWords, launched, trainer_words, unread
from planner.trainers.common.known_keys import known_keys, roles_of

_YAML = (".yaml", ".yml", ".json")


@dataclass(frozen=True)
class Settings:
    """Settings by key, and the facts of the launch."""

    values: Mapping[str, Any]
    devices: int | None
    accelerate: Mapping[str, Any] | None = None
    """The launcher's own file."""
    notes: tuple[str, ...] = field(default=())


def settings_of(file: str, front_end: str, *, devices: int | None) -> Settings:
    """Return the settings of a file.

    Raises
    ------
    BadInputError
        Neither a YAML mapping with keys of the front end, nor a script that starts it.
    """
    if Path(file).suffix in _YAML:
        return Settings(_mapping(Path(file), front_end), devices)
    known = known_keys(front_end)
    script = trainer_words(read_text(file), file, knows=lambda word: _key(word) in known or Path(word).suffix in _YAML)
    values, unknown = _words(script, Path(file), front_end)
    if not values:
        raise BadInputError(f"{file}: no setting of {front_end} in it; give its YAML, or the script that starts it")
    needed = [f"{file}: {unread(word.text, word)}" for key, word in unknown.items() if key in roles_of(front_end).read]
    if needed:
        raise BadInputError(needed)
    notes = (*script.notes, *launched(script.launch, devices))
    return Settings(values, devices or script.launch.devices, _launcher(script, Path(file)), notes)


def _mapping(file: Path, front_end: str) -> dict[str, Any]:
    data = unquoted(read_yaml(file))
    if not isinstance(data, dict) or not any(key in known_keys(front_end) for key in data):
        raise BadInputError(f"{file}: not a configuration of {front_end}; it must be a YAML mapping with its keys")
    return {str(key): value for key, value in data.items()}


def _key(word: str) -> str:
    """The key of ``--key``, ``--key=value`` or ``key=value``."""
    return word.removeprefix("--").partition("=")[0]


def _words(script: TrainerWords, file: Path, front_end: str) -> tuple[dict[str, Any], dict[str, Word]]:
    """The settings of a command's words, over those of the YAML that it names."""
    known = known_keys(front_end)
    under: dict[str, Any] = {}
    found: dict[str, Any] = {}
    unknown: dict[str, Word] = {}
    name: str | None = None
    for word in script.words:
        key, equals, value = word.text.removeprefix("--").partition("=")
        option = word.text.startswith("--") or (bool(equals) and key in known)
        if option and word.unknown:
            unknown[key] = word
        elif option:
            name, found[key] = key, parse_yaml(value, f"{file}: {key}") if equals and value else True
        elif name is not None and word.unknown:
            unknown[name] = Word(f"--{name} {word.text}", word.unknown)
            found.pop(name, None)
        elif Path(word.text).suffix in _YAML and name in (None, "config"):
            found.pop("config", None)
            beside = named_beside(word.text, file)
            if beside is None:
                raise BadInputError(f"{file}: {word.text} is not in its folder; put it there, or give it as the file")
            under = _mapping(beside, front_end)
        elif name is not None and found.get(name) is True:
            found[name] = parse_yaml(word.text, f"{file}: {name}")
    merged: dict[str, Any] = unquoted({**under, **found})
    return merged, unknown


def _launcher(script: TrainerWords, file: Path) -> Mapping[str, Any] | None:
    """The YAML of ``accelerate launch --config_file``."""
    if script.command is None:
        return None
    texts = script.command.texts[: script.command.program_at]
    for index, text in enumerate(texts):
        name, equals, value = text.partition("=")
        if name in ("--config_file", "--config-file"):
            path = value if equals else texts[index + 1] if index + 1 < len(texts) else ""
            beside = named_beside(path, file)
            if beside is None:
                raise BadInputError(f"{file}: {path} of accelerate launch is not in its folder; put it there")
            data = read_yaml(beside)
            return data if isinstance(data, dict) else None
    return None
