"""Primus (AMD): a YAML file that wraps a trainer's settings, as overrides of a preset of the trainer and of the model.

Source: github.com/AMD-AGI/Primus, examples/<framework>/configs and primus/configs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lcplan.formats.booleans import unquoted
from lcplan.formats.errors import BadInputError
from lcplan.formats.textfile import parse_yaml, read_yaml

_VARIABLE = re.compile(r"\$\{(\w+)(?::([^{}]*))?\}")
"""A variable of the environment with its default."""
_BASES = ("extends", "includes", "bases")
"""Keys of a preset that name the presets below it."""


@dataclass(frozen=True)
class Wrapped:
    """The settings that a Primus file gives to its trainer."""

    values: Mapping[str, Any]
    notes: tuple[str, ...]
    model: str = ""
    """The name of the model's preset where the preset was not found; empty: it was read, or the file names none."""


def wrapped_in(data: Any, framework: str, *, file: Path) -> Wrapped | None:
    """Return the settings of the module of ``framework``; None where ``data`` is no file of Primus.

    Raises
    ------
    BadInputError
        The file is of another framework.
    """
    modules = data.get("modules") if isinstance(data, dict) else None
    found = (
        [one for one in modules.values() if isinstance(one, dict) and "framework" in one] if isinstance(modules, dict) else []
    )
    if not found:
        return None
    module = next((one for one in found if str(one["framework"]).lower() == framework), None)
    if module is None:
        raise BadInputError(
            f"{file}: a Primus file of framework {str(found[0]['framework'])!r:.40}; this option reads {framework}"
        )
    values: dict[str, Any] = {}
    missing = []
    for kind, folder in (("config", "modules"), ("model", "models")):
        preset = _preset_of(module.get(kind), file, f"{folder}/{framework}")
        values |= preset or {}
        missing += [str(module[kind])] if preset is None and module.get(kind) else []
    overrides = module.get("overrides") or {}
    if not isinstance(overrides, dict):
        raise BadInputError(f"{file}: overrides is not a mapping of keys to values")
    filled, notes = _filled(values | overrides, file)
    if missing:
        notes.append(f"{' and '.join(missing)}: presets of Primus that are not in a folder above this file; not read")
    unread = str(module["model"]) if module.get("model") and str(module["model"]) in missing else ""
    return Wrapped(unquoted(filled), tuple(notes), unread)


def _preset_of(name: Any, file: Path, folder: str) -> dict[str, Any] | None:
    """A preset of the Primus checkout that the file is in; None where it is in none."""
    roots = (parent / "primus" / "configs" / folder for parent in file.resolve().parents)
    found = next((root / str(name) for root in roots if name and (root / str(name)).is_file()), None)
    return None if found is None else _preset(found, ())


def _preset(file: Path, above: tuple[Path, ...]) -> dict[str, Any]:
    data = read_yaml(file)
    if not isinstance(data, dict):
        raise BadInputError(f"{file}: a preset of Primus must be a mapping of keys to values")
    if file in above:
        raise BadInputError(f"{file}: it extends itself")
    values: dict[str, Any] = {}
    for base in _names(data.get(key) for key in _BASES):
        if (file.parent / base).is_file():
            values |= _preset(file.parent / base, (*above, file))
    return values | {key: value for key, value in data.items() if key not in _BASES}


def _names(lists: Iterable[Any]) -> list[str]:
    return [str(name) for one in lists if isinstance(one, list) for name in one]


def _filled(values: Mapping[str, Any], file: Path) -> tuple[dict[str, Any], list[str]]:
    """The values with the defaults of variables; keys with a variable that has no default are left out, with a note."""
    filled: dict[str, Any] = {}
    notes: list[str] = []
    for name, value in values.items():
        key = str(name)
        match = _VARIABLE.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            filled[key] = value
        elif match[2] is None:
            notes.append(f"{key}: the variable {match[1]} sets it, so it was not read; write its value")
        else:
            filled[key] = parse_yaml(match[2], f"{file}: {key}")
    return filled, notes
