"""Users' own YAML specs of models and hardware: whole ones, or a catalogue entry with changes.

The format is described in docs/specs.md. Beyond the fields of the specs there is ``base`` (a catalogue name), and a figure may
be a bare number or a size with a unit, which gets the file as its source.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_origin

from pydantic import BaseModel

from lcplan.formats import units
from lcplan.formats.errors import BadInputError
from lcplan.formats.frozen import model_in
from lcplan.formats.textfile import read_yaml
from lcplan.spec.hardware import Figure, HardwareSpec
from lcplan.spec.model import ModelSpec

_PARSERS: tuple[tuple[str, Callable[[str, str], float]], ...] = (
    ("_bytes_per_s", units.parse_bytes_per_s),
    ("_flop_per_s", units.parse_flop_per_s),
    ("_bytes", units.parse_bytes),
    ("_s", units.parse_seconds),
    ("_w", units.parse_watts),
)
"""Parser by the unit at the end of a field's name; the first match counts."""


def read_model(path: Path) -> ModelSpec:
    """A model's YAML spec, or a config.json's keys written as YAML.

    Raises
    ------
    BadInputError
        Unreadable, not a mapping, unknown or missing keys, wrong values, an unknown base.
    """
    return model_from(_mapping(path), name=path.stem, source=f"user file {path.name}", where=str(path))


def model_from(data: dict[str, Any], *, name: str, source: str, where: str) -> ModelSpec:
    """A model from the mapping of a YAML spec; ``name`` and ``source`` are for a spec that states none.

    Raises
    ------
    BadInputError
        Unknown or missing keys, wrong values, an unknown base; each line begins with ``where``.
    """
    if "model_type" in data:
        from lcplan.hf import from_config

        return from_config(data, name, where=where)
    base, own = _base(data, name=name, source=source, where=where)
    changes = {key: value for key, value in data.items() if key != "base"}
    if base is not None:
        from lcplan.catalog.named_model import named

        changes = merge(_dump(named, base, where=where), own | changes)
    return ModelSpec.read(own | changes, where)


def read_hardware(path: Path) -> HardwareSpec:
    """A hardware's YAML spec.

    Raises
    ------
    BadInputError
        As ``read_model``.
    """
    if path.suffix.lower() == ".json":
        raise BadInputError(f"{path}: a hardware spec is a YAML file (.yaml or .yml)")
    return hardware_from(_mapping(path), name=path.stem, source=f"user file {path.name}", where=str(path))


def hardware_from(data: dict[str, Any], *, name: str, source: str, where: str) -> HardwareSpec:
    """Hardware from the mapping of a YAML spec, as ``model_from``; a bare number of a figure gets ``source``.

    Raises
    ------
    BadInputError
        As ``model_from``.
    """
    base, own = _base(data, name=name, source=source, where=where)
    plain = {key: value for key, value in data.items() if key != "base"}
    changes = _with_figures(HardwareSpec, plain, source=source, where=where)
    if base is not None:
        from lcplan.catalog.named_hardware import named

        changes = merge(_dump(named, base, where=where), own | changes)
    return HardwareSpec.read(own | changes, where)


def merge(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """``base`` with ``changes``: mappings field by field, everything else replaced.

    >>> merge({"a": {"x": 1, "y": 2}, "b": [1]}, {"a": {"y": 3}, "b": [2]})
    {'a': {'x': 1, 'y': 3}, 'b': [2]}
    """
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        result[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


def _mapping(path: Path) -> dict[Any, Any]:
    data = read_yaml(path)
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise BadInputError(f"{path}: not a spec: a mapping of keys to values was expected")
    return dict(data)


def _base(data: dict[Any, Any], *, name: str, source: str, where: str) -> tuple[str | None, dict[str, Any]]:
    """The mapping's ``base``, and the name and source of a spec that states none."""
    base = data.get("base")
    if base is not None and not isinstance(base, str):
        raise BadInputError(f"{where}: base: a catalogue name was expected (got {base!r:.40})")
    return base, {"name": name, "source": source + (f", changes to {base}" if base else "")}


def _dump(named: Callable[[str], BaseModel], base: str, *, where: str) -> dict[str, Any]:
    try:
        return named(base).model_dump(mode="json")
    except BadInputError as error:
        raise BadInputError([f"{where}: base: {problem}" for problem in error.problems]) from None


def _with_figures(cls: type[BaseModel], data: dict[Any, Any], *, source: str, where: str) -> dict[Any, Any]:
    """``data`` with every bare number or size of a Figure field made a Figure whose source is the file."""
    result = dict(data)
    for name, info in cls.model_fields.items():
        inner, value = model_in(info.annotation), data.get(name)
        if inner is Figure and value is not None:
            result[name] = _figure(value, name=name, source=source, where=where)
        elif inner is not None and isinstance(value, dict):
            by_key = get_origin(info.annotation) is dict  # as collectives by their op
            inside = {key: _inside(inner, one, source=source, where=where) for key, one in value.items()} if by_key else None
            result[name] = inside if by_key else _inside(inner, value, source=source, where=where)
    return result


def _inside(cls: type[BaseModel], value: Any, *, source: str, where: str) -> Any:
    """Read a spec within a spec. A value that is not a mapping is left for the spec to refuse."""
    return _with_figures(cls, value, source=source, where=where) if isinstance(value, dict) else value


def _figure(value: Any, *, name: str, source: str, where: str) -> Any:
    if isinstance(value, dict):
        number = _number(value["value"], name=name, where=where) if "value" in value else None
        return {"source": source, "kind": "user"} | value | ({} if number is None else {"value": number})
    return {"value": _number(value, name=name, where=where), "source": source, "kind": "user"}


def _number(value: Any, *, name: str, where: str) -> Any:
    """A size with a unit as a number; anything else as it is, for the spec to judge."""
    if not isinstance(value, str):
        return value
    parse = next((parser for end, parser in _PARSERS if name.endswith(end)), None)
    return float(parse(value, f"{where}: {name}")) if parse else value
