"""Temporary folders that do not stay for ever: those of killed processes go when the next one is made."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

_NAME = re.compile(r"lcplan-(\d{1,9})-\w+")


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a temporary folder, and remove it at the end; remove those of this user's processes that were killed.

    Raises
    ------
    OSError
        No folder can be made.
    """
    _sweep()
    with TemporaryDirectory(prefix=f"lcplan-{os.getpid()}-") as folder:
        yield Path(folder)


def _sweep() -> None:
    for folder in Path(gettempdir()).glob("lcplan-*-*"):
        match = _NAME.fullmatch(folder.name)
        if match and not _lives(int(match[1])) and _is_mine(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True


def _is_mine(folder: Path) -> bool:
    try:
        return not folder.is_symlink() and folder.is_dir() and folder.stat().st_uid == os.getuid()
    except OSError:
        return False
