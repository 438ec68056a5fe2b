"""Reading users' YAML and JSON safely (no tags, no duplicate keys, bounded size) and writing files atomically."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import yaml

from lcplan.errors import BadInputError

MAX_BYTES = 16 * 2**20
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _StrictLoader(_Loader):  # type: ignore[misc]
    """Safe loader that refuses duplicate keys, which YAML would let the last one win."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = key_node.value
            if isinstance(key, str) and key in seen and key != "<<":
                raise yaml.MarkedYAMLError(problem=f"key {key!r} stands twice", problem_mark=key_node.start_mark)
            if isinstance(key, str):
                seen.add(key)
        return super().construct_mapping(node, deep)


def read_text(path: str | Path) -> str:
    """A user's text file.

    Raises
    ------
    BadInputError
        Missing, a folder, unreadable, above 16 MiB, or not UTF-8.
    """
    file = Path(path)
    try:
        if file.stat().st_size > MAX_BYTES:
            raise BadInputError(f"{path}: {file.stat().st_size} bytes; files above {MAX_BYTES} bytes are not read")
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadInputError(f"{path}: not a UTF-8 text file") from None
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror or error}") from None


def read_yaml(path: str | Path) -> Any:
    """A user's YAML file as plain values; never runs or builds anything that the file names."""
    text = read_text(path)
    try:
        return yaml.load(text, Loader=_StrictLoader)  # noqa: S506 (a SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadInputError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None


def read_json(path: str | Path) -> Any:
    """A user's JSON file as plain values."""
    text = read_text(path)
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise BadInputError(f"{path}: not valid JSON: {error}") from None


def write_text(path: str | Path, text: str) -> None:
    """Write through a temporary file beside ``path`` and rename, so that readers see all or nothing.

    Raises
    ------
    OSError
        Disk full, read-only folder; the old file, where there was one, is untouched.
    """
    file = Path(path)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).replace(file)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def write_yaml(path: str | Path, data: Any) -> None:
    """Plain values as YAML, atomically."""
    write_text(path, yaml.safe_dump(data, sort_keys=False, width=120))
