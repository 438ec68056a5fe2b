"""Child: a process that makes rows, one line of its stdout each, given up where a row takes too long."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from planner.measure.workers.stderr_lines import last_words

CUDA = "/usr/local/cuda/bin"
"""Where CUDA's own installer puts its compilers."""


class Child:
    """``words`` says, after the rows, what went wrong; empty where the process ended well or the time was over."""

    MARK: ClassVar[str] = "ROW "

    def __init__(self, command: Sequence[str], *, on_host: bool) -> None:
        self.words = ""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the process
        environment = {**os.environ, "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.92", "TF_CPP_MIN_LOG_LEVEL": "2"}
        environment["PATH"] = f"{environment.get('PATH', '')}{os.pathsep}{CUDA}"  # ptxas, which many a shell does not find
        if on_host:
            environment["JAX_PLATFORMS"] = "cpu"
        self._process = subprocess.Popen(
            [*command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            start_new_session=True,
            bufsize=0,
        )

    def rows(self, *, row_s: float, until: float) -> Iterator[dict[str, Any]]:
        """Rows as they come, until there are no more, one takes ``row_s`` [s], or the monotonic clock says ``until`` [s]."""
        assert self._process.stdout is not None
        part = b""
        patience = min(until, time.monotonic() + row_s)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self._process.stdout, selectors.EVENT_READ)
                while time.monotonic() < patience:
                    if not selector.select(0.5):
                        continue
                    found = os.read(self._process.stdout.fileno(), 2**16)
                    if not found:
                        self.words = self._last_words()
                        return
                    *lines, part = (part + found).split(b"\n")
                    for line in lines:
                        if line.startswith(self.MARK.encode()):
                            yield json.loads(line.removeprefix(self.MARK.encode()))
                            patience = min(until, time.monotonic() + row_s)
            self.words = "" if time.monotonic() >= until else f"no row after {row_s:g} s"
        finally:
            self.close()

    def _last_words(self) -> str:
        code = self._process.wait()
        if code == 0:
            return ""
        self._errors.seek(0)
        said = last_words(self._errors.read()[-(2**16) :].decode(errors="replace"))
        return said or f"exit code {code}"

    def close(self) -> None:
        """End the process and what it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()
