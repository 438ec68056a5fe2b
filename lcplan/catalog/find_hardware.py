"""``--hw``: a catalogue name (with ``xN`` behind it), a TPU accelerator type, ``cpu-host``, or a YAML spec."""

from __future__ import annotations

from pathlib import Path

from lcplan.catalog.named_hardware import find_named, named
from lcplan.catalog.path_like import is_path
from lcplan.catalog.spoken import spoken
from lcplan.spec.hardware import HardwareSpec


def hardware(text: str) -> HardwareSpec:
    """The hardware that a user asked for.

    Raises
    ------
    BadInputError
        Unknown name (with near names), no such slice, or an unreadable or wrong file.
    """
    text = text.strip()
    found = find_named(text)
    if found is None and is_path(text):
        from lcplan.catalog.user_specs import read_hardware

        return read_hardware(Path(text))
    if found is not None:
        return found
    words = spoken(text)
    return words.spec if words else named(text)


def read_as(text: str) -> str:
    """How words other than a catalogue name, an accelerator type or a file were understood; empty for those.

    Raises
    ------
    BadInputError
        As ``hardware``.
    """
    text = text.strip()
    if find_named(text) is not None or is_path(text):
        return ""
    words = spoken(text)
    return words.note if words else ""
