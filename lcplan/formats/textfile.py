"""Reading users' YAML and JSON safely (no tags, no duplicate keys, bounded size) and writing files atomically."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import yaml

from lcplan.formats.errors import BadInputError

MAX_BYTES = 16 * 2**20
MAX_VALUES = 10**6
"""Values of a YAML file once its aliases are followed; nested aliases can name billions in a few lines."""
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _StrictLoader(_Loader):  # type: ignore[misc]
    """Safe loader that refuses duplicate keys, which YAML would let the last one win, and reads 1e9 as a number."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = key_node.value
            if isinstance(key, str) and key in seen and key != "<<":
                raise yaml.MarkedYAMLError(problem=f"key {key!r} stands twice", problem_mark=key_node.start_mark)
            if isinstance(key, str):
                seen.add(key)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Safe dumper that quotes every string that ``_StrictLoader`` would read as a number."""


for _side in (_StrictLoader, _Dumper):
    # YAML 1.1 takes 1e9 and 1.8e12 for text, since it wants a sign in the exponent.
    _side.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+$"), list("-+.0123456789")
    )


def read_text(path: str | Path) -> str:
    """A user's text file.

    Raises
    ------
    BadInputError
        Missing, a folder, unreadable, above 16 MiB, or not UTF-8.
    """
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)  # a device or a pipe has no size to ask for
    except (OSError, ValueError) as error:
        raise BadInputError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_BYTES:
        raise BadInputError(f"{path}: above {MAX_BYTES // 2**20} MiB; a file of this size is no spec")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise BadInputError(f"{path}: not a UTF-8 text file") from None


def read_yaml(path: str | Path) -> Any:
    """A user's YAML file as plain values; never runs or builds anything that the file names.

    Raises
    ------
    BadInputError
        As ``read_text``; as ``parse_yaml``.
    """
    return parse_yaml(read_text(path), path)


def parse_yaml(text: str, path: str | Path) -> Any:
    """Parse a text into plain values; ``path`` is the file that it comes from.

    Raises
    ------
    BadInputError
        Not YAML, tags of objects, a key twice, or aliases that name too much.
    """
    try:
        data = yaml.load(text, Loader=_StrictLoader)  # noqa: S506 (a SafeLoader)
        if _count(data, {}) > MAX_VALUES:
            raise BadInputError(f"{path}: above {MAX_VALUES} values once its aliases are followed")
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise BadInputError(f"{path}: not valid YAML: {_one_line(error)}") from None
    return data


def _count(data: Any, known: dict[int, int | None]) -> int:
    """Values in ``data`` with every alias followed; each object is visited once.

    Raises
    ------
    ValueError
        A value that contains itself.
    """
    if not isinstance(data, dict | list):
        return 1
    if id(data) in known:
        done = known[id(data)]
        if done is None:
            raise ValueError("a value contains itself")
        return done
    known[id(data)] = None
    total = 1 + sum(_count(item, known) for item in (data.values() if isinstance(data, dict) else data))
    known[id(data)] = total
    return total


def read_json(path: str | Path) -> Any:
    """A user's JSON file as plain values.

    Raises
    ------
    BadInputError
        As ``read_text``; not JSON, or a key twice.
    """
    text = read_text(path)
    try:
        return json.loads(text, object_pairs_hook=_no_twins)
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"{path}: not valid JSON: {_one_line(error)}") from None


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} stands twice")
    return result


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def write_text(path: str | Path, text: str, *, anew: bool = False) -> None:
    """Write through a temporary file in the folder of ``path`` and rename, so that readers see all or nothing.

    Raises
    ------
    FileExistsError
        ``anew``, and somebody else made the file first.
    OSError
        Disk full, read-only folder; the old file, where there was one, is untouched.
    """
    file = Path(path)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(_mode(file))
        if not (anew and _linked(temporary, file)):
            temporary.replace(file)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _linked(temporary: Path, file: Path) -> bool:
    """Give ``temporary`` its name where nothing has it yet; False where the file system has no hard links."""
    try:
        os.link(temporary, file)
    except FileExistsError:
        raise
    except OSError:
        return False
    temporary.unlink()
    return True


def _mode(file: Path) -> int:
    """Permissions of the file to be replaced, or those of a plain new file; mkstemp's are the owner's only."""
    try:
        return file.stat().st_mode & 0o777
    except OSError:
        return 0o644


def write_yaml(path: str | Path, data: Any) -> None:
    """Plain values as YAML, atomically."""
    write_text(path, yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True))
