"""The overlay: a YAML spec of a catalogue entry with measured rates in it, for ``--hw FILE``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lcplan.catalog.user_specs import hardware_from
from lcplan.formats.errors import BadInputError, StageFailedError
from lcplan.formats.textfile import write_yaml
from lcplan.spec.hardware import Figure, HardwareSpec
from planner.calibrate.figures import Findings


def overlay(base: HardwareSpec, findings: Findings, *, where: str) -> dict[str, Any]:
    """The mapping of the file. Warnings are in its notes, so that a reader of the spec sees them too."""
    device: dict[str, Any] = {"rates": {name: _plain(value) for name, value in findings.rates.items()}}
    if findings.host is not None:
        device["host_oneway_bytes_per_s"] = _plain(findings.host)
    warned = [f"WARNING: {warning}" for warning in findings.warnings]
    return {
        "base": base.name,
        "source": where,
        "device": device,
        "notes": [*base.notes, f"Rates measured by {where}.", *warned],
    }


def check_out(path: Path) -> None:
    """Check that the file can be written and read again, before minutes are spent on its contents.

    Raises
    ------
    BadInputError
        Another ending than a spec's, a folder of this name, or a parent folder that is missing or may not be written.
    """
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise BadInputError(f"--out {path}: a hardware spec is a YAML file (.yaml or .yml)")
    if path.is_dir():
        raise BadInputError(f"--out {path}: that is a folder; name a file")
    if not path.parent.is_dir():
        raise BadInputError(f"--out {path}: there is no folder {path.parent}; make it first")
    if not os.access(path.parent, os.W_OK):
        raise BadInputError(f"--out {path}: {path.parent} cannot be written; choose another folder")


def write_overlay(path: Path, data: dict[str, Any]) -> HardwareSpec:
    """Write the file whole or not at all, and read it as ``--hw`` will.

    Raises
    ------
    StageFailedError
        It cannot be written.
    """
    spec = hardware_from(data, name=path.stem, source=f"user file {path.name}", where=str(path))
    try:
        write_yaml(path, data)
    except OSError as error:
        raise StageFailedError(f"{path}: {error.strerror or error}; choose another file with --out") from None
    return spec


def _plain(value: Any) -> Any:
    if isinstance(value, Figure):
        return value.model_dump(mode="json")
    return {key: _plain(inner) for key, inner in value.items()} if isinstance(value, dict) else value
