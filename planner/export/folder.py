"""The folder of an export: lcplan overwrites its own files and leaves files that a person wrote or changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lcplan import __version__
from lcplan.formats.errors import BadInputError, StageFailedError
from lcplan.formats.textfile import read_json, write_texts

MANIFEST = "lcplan-export.json"
"""Names and hashes of the files that lcplan wrote into a folder."""


def write_export(folder: Path, files: Mapping[str, str]) -> tuple[Path, ...]:
    """Write the files of an export: all of them, or no file.

    Raises
    ------
    BadInputError
        A file of that name is there that lcplan did not write, or that was changed since; nothing is written.
    StageFailedError
        The folder cannot be made or written.
    """
    written = _manifest(folder)
    foreign = [
        problem for name, text in files.items() if (problem := _conflict(folder / name, text, written=written.get(name)))
    ]
    if foreign:
        raise BadInputError([*foreign, "nothing was written; give another folder with --out, or move these files away"])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        hashes = written | {name: _hash(text) for name, text in files.items()}
        manifest = json.dumps({"lcplan_version": __version__, "files": hashes}, indent=1) + "\n"
        write_texts({folder / name: text for name, text in (*files.items(), (MANIFEST, manifest))})
        for name in files:
            if name.endswith(".sh"):
                (folder / name).chmod(0o755)
    except OSError as error:
        raise StageFailedError(f"{folder}: {error.strerror or error}; choose another folder with --out") from None
    return tuple(folder / name for name in files)


def _conflict(file: Path, text: str, *, written: str | None) -> str | None:
    if not file.exists():
        return None
    try:
        there = file.read_bytes()
    except OSError as error:
        return f"{file}: {error.strerror or error}"
    if there == text.encode() or hashlib.sha256(there).hexdigest() == written:
        return None
    return f"{file} was changed since lcplan wrote it" if written else f"{file} is there and was not written by lcplan"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _manifest(folder: Path) -> dict[str, str]:
    file = folder / MANIFEST
    if not file.exists():
        return {}
    data: Any = read_json(file)
    files = data.get("files") if isinstance(data, dict) else None
    if not isinstance(files, dict):
        raise BadInputError(f"{file} is not lcplan's list of written files; give another folder with --out")
    return {str(name): str(value) for name, value in files.items()}
