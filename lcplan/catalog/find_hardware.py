"""``--hw``: a catalogue name (with ``xN`` behind it), a TPU accelerator type, ``cpu-host``, or a YAML spec."""

from __future__ import annotations

from pathlib import Path

from lcplan.catalog.named_hardware import find_named, named
from lcplan.catalog.path_like import is_path
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
    return found or named(text)
