"""Executables that a compile for the devices at hand keeps for the timing of the same program.

jax's own persistent cache keeps them, in a folder of each program. A compile empties the folder first, since an executable
that is read back has lost part of its text. Where a folder is damaged (a full disk, half of a file), jax compiles as if
there were no cache.

An executable is native code that the worker runs, and a run's folder may come from somewhere else. So a folder of executables
belongs to this user, and only this user can write to it; another one is emptied, and its programs are compiled again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def kept_in(folder: str | None, *, anew: bool) -> Iterator[None]:
    """Keep the executables of compiles inside in ``folder``, and read them from it unless ``anew``; None: neither."""
    if folder is None:
        yield
        return
    if anew or not _is_own(Path(folder)):
        shutil.rmtree(folder, ignore_errors=True)
    if not _made(Path(folder)):
        yield
        return
    _set(folder)
    try:
        yield
    finally:
        _set(None)


def _is_own(folder: Path) -> bool:
    """Whether only this user can write to the folder, and its files are this user's, with no link among them."""
    try:
        return _is_private(folder) and all(_is_ours(path.lstat()) for path in folder.rglob("*"))
    except OSError:
        return False


def _is_private(folder: Path) -> bool:
    facts = folder.lstat()
    return _is_ours(facts) and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _is_ours(facts: os.stat_result) -> bool:
    return facts.st_uid == os.geteuid() and not stat.S_ISLNK(facts.st_mode)


def _made(folder: Path) -> bool:
    """Make the folder for this user only; False where another one is in its place and cannot be removed."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        return _is_private(folder)
    except OSError:
        return False


def _set(folder: str | None) -> None:
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    compilation_cache.reset_cache()
    settings: dict[str, Any] = {
        "jax_compilation_cache_dir": folder,
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": 0,
    }
    for name, value in settings.items():
        jax.config.update(name, value)
