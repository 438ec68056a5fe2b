"""One timing at a time on a machine, whoever runs it: searches and engine workers of one user share a lock file."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def alone_on_this_machine() -> Iterator[None]:
    """Hold the lock of timings; wait for the process that has it. The system releases it when a process dies."""
    descriptor = os.open(_lock_file(), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _lock_file() -> Path:
    """The file of this user: in the runtime folder where the system has one, else with the temporary files."""
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    folder = runtime if os.access(runtime, os.W_OK) else Path(tempfile.gettempdir())
    return folder / f"lcplan-timing-{os.getuid()}.lock"
