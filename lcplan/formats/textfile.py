"""Reading users' YAML and JSON safely (no tags, no duplicate keys, bounded size) and writing files atomically."""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import os
import re
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from lcplan.formats.errors import BadInputError

MAX_BYTES = 16 * 2**20
MAX_VALUES = 10**6
"""Values of a YAML file once its aliases are followed; nested aliases can name billions in a few lines."""
MAX_EVENTS = 400_000
"""Scalars and beginnings of lists and mappings in a YAML file: its nodes take about a kilobyte each while it is read."""
MAX_DEPTH = 200
SMALL = 2**16
"""Characters up to which a file is read at once: its values and its depth are bounded by its length."""
STALE_S = 86_400.0
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


def named_beside(name: str, file: str | Path) -> Path | None:
    """Return the file that another file names: at this path from its folder, or by its last part in the folder; None: neither.

    People share a configuration with the files that it names in one folder, whatever the paths were.
    """
    folder = Path(file).parent
    return next((path for path in (folder / name, folder / Path(name).name) if path.is_file()), None)


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
        _check_size(text, path)
        data = yaml.load(text, Loader=_StrictLoader)  # noqa: S506 (a SafeLoader)
        if _count(data, {}) > MAX_VALUES:
            raise BadInputError(f"{path}: above {MAX_VALUES} values once its aliases are followed")
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise BadInputError(f"{path}: not valid YAML: {_one_line(error)}") from None
    return data


def _check_size(text: str, path: str | Path) -> None:
    """Refuse too many values and too deep nesting before any value is built; events are read one by one."""
    if len(text) < SMALL:
        return
    count, depth = 0, 0
    for event in yaml.parse(text, Loader=_Loader):
        begins = isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent))
        count += begins or isinstance(event, yaml.ScalarEvent)
        depth += begins - isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent))
        if count > MAX_EVENTS:
            raise BadInputError(f"{path}: above {MAX_EVENTS} values; a file of this size is no spec")
        if depth > MAX_DEPTH:
            raise BadInputError(f"{path}: nested above {MAX_DEPTH} levels")


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
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"key {key[:80]!r} stands twice")
        result[key] = value
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
        Disk full, read-only folder, or a device or a pipe in the file's place; an old file is untouched.
    """
    file = _regular(path)
    temporary = _staged(file, text)
    try:
        if not (anew and _linked(temporary, file)):
            temporary.replace(file)
    except BaseException:
        _unlink(temporary)
        raise


def write_texts(texts: Mapping[Path, str]) -> None:
    """Write several files: all are on the disk before the first one gets its name.

    Raises
    ------
    OSError
        As ``write_text``; no file is changed.
    """
    staged: dict[Path, Path] = {}
    try:
        for path, text in texts.items():
            file = _regular(path)
            staged[file] = _staged(file, text)
        for file, temporary in staged.items():
            temporary.replace(file)
    finally:
        for temporary in staged.values():
            _unlink(temporary)


def _regular(path: str | Path) -> Path:
    """The file that a path names, links followed."""
    file = Path(path)
    file = file.resolve() if file.is_symlink() else file  # the link stays
    if file.exists() and not file.is_file():
        raise OSError(errno.EINVAL, "not a regular file; choose another path", str(file))
    return file


def _staged(file: Path, text: str) -> Path:
    """A temporary file next to ``file`` with its text and permissions."""
    _sweep(file)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(_mode(file))
    except BaseException:
        _unlink(temporary)
        raise
    return temporary


def _unlink(file: Path) -> None:
    with contextlib.suppress(OSError):
        file.unlink()


def _sweep(file: Path) -> None:
    """Remove temporary files of ``file`` that a killed process left a day ago or earlier."""
    for left in file.parent.glob(f".{glob.escape(file.name)}.????????"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > STALE_S:
                left.unlink()


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
