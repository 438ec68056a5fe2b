"""A worker process, seen from its parent: send a job, read the output, notice death, kill the whole group."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

FailureKind = Literal["error", "crash", "timeout", "memory", "killed", "exit", "environment"]
PERMANENT: frozenset[FailureKind] = frozenset({"error"})
"""Failures that would happen again: kept in the study. The others are tried again by the next search: a crash may be the
machine's (a limit on memory, a faulty driver)."""
STDERR_KEPT = 2**20
_CRASHES = {signal.SIGABRT, signal.SIGSEGV, signal.SIGILL, signal.SIGBUS, signal.SIGFPE, signal.SIGTRAP}
_LIBRARY_PREFIXES = ("JAX_", "XLA_", "TPU_", "LIBTPU_", "TF_", "PJRT_")


@dataclass(frozen=True)
class Launch:
    """How a worker is started. Workers of one launch are interchangeable."""

    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Failure:
    """Why there is no result; ``words`` are the compiler's own where it had any."""

    kind: FailureKind
    words: str


def clean_environment(extra: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """This environment without a shell's settings of jax and XLA: they would change the program unseen."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_LIBRARY_PREFIXES)}
    return {**kept, **dict(extra)}


class WorkerProcess:
    """A started worker. ``close`` kills it and everything that it started, and reaps it."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.jobs_done = 0
        self.sent_at: float | None = None
        self.stderr = b""
        self._stdout = b""
        self.noise: list[str] = []
        self._process = subprocess.Popen(
            [*launch.command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=clean_environment(launch.environment),
            start_new_session=True,
            bufsize=0,
        )
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)

    @property
    def pid(self) -> int:
        """Process id, of the group too."""
        return self._process.pid

    @property
    def descriptors(self) -> tuple[int, int]:
        """(stdout, stderr)."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        return self._process.stdout.fileno(), self._process.stderr.fileno()

    def send(self, request: Mapping[str, Any]) -> None:
        """Hand a job over; a worker that is already dead shows up as an exit at the next look."""
        self.stderr, self.noise, self.sent_at = b"", [], time.monotonic()
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, OSError):
            self._process.stdin.write(json.dumps(request).encode() + b"\n")

    def drain(self) -> list[dict[str, Any]]:
        """Read the available output and return its answers. Other lines on stdout are noise, kept for the message."""
        out, err = self.descriptors
        self._stdout += _read(out)
        self.stderr = (self.stderr + _read(err))[-STDERR_KEPT:]
        *lines, self._stdout = self._stdout.split(b"\n")
        if len(self._stdout) > STDERR_KEPT:
            self._stdout = self._stdout[-STDERR_KEPT:]
        answers = []
        for line in lines:
            try:
                answer = json.loads(line)
            except ValueError:
                answer = None
            if isinstance(answer, dict) and "id" in answer:
                answers.append(answer)
            elif line.strip():
                self.noise = [*self.noise, line.decode(errors="replace")][-20:]
        return answers

    @property
    def seconds(self) -> float:
        """Since the job was sent [s]."""
        return time.monotonic() - (self.sent_at or time.monotonic())

    def resident_bytes(self) -> int:
        """Resident memory of the process [bytes]; 0 where the system does not report it."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        except (OSError, ValueError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")

    def ended(self) -> Failure | None:
        """Why the process is gone; None while it lives."""
        code = self._process.poll()
        if code is None:
            return None
        if code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            if -code in _CRASHES:
                return Failure("crash", f"worker died of {name}")
            hint = ", most likely by the kernel for want of memory" if -code == signal.SIGKILL else ""
            return Failure("killed", f"worker was ended by {name} from outside{hint}")
        return Failure("exit", f"worker ended with exit code {code} without a result")

    def close(self) -> None:
        """Kill the group and reap the process; safe to call twice."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _read(descriptor: int) -> bytes:
    parts = []
    with contextlib.suppress(BlockingIOError):
        while part := os.read(descriptor, 2**16):
            parts.append(part)
    return b"".join(parts)
