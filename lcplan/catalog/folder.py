"""The catalogue's data files, found by name; only the asked file is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from lcplan.formats.textfile import read_yaml

Kind = Literal["models", "hardware"]
_ROOT = Path(__file__).parent


def names(kind: Kind) -> tuple[str, ...]:
    """Names of the files of one kind, sorted; no file is opened."""
    return tuple(sorted(file.stem for file in (_ROOT / kind).glob("*.yaml")))


def has(kind: Kind, name: str) -> bool:
    """Whether a file of this name exists. Whatever the name is, it is compared, never made a path."""
    return name in names(kind)


def read(kind: Kind, name: str) -> tuple[Any, str]:
    """The plain values of one file, and the label that messages give it."""
    return read_yaml(_ROOT / kind / f"{name}.yaml"), f"catalogue {kind}/{name}.yaml"
