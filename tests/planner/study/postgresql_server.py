"""A PostgreSQL server of its own, for tests that restart or kill it."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest


def _binaries() -> Path | None:
    found = shutil.which("initdb")
    folders = [*sorted(Path("/usr/lib/postgresql").glob("*/bin")), *([Path(found).parent] if found else [])]
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists()), None)


def _as_user() -> list[str]:
    """PostgreSQL refuses to run as root."""
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []


class Server:
    """A PostgreSQL server of its own, with a password."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        (folder / "password").write_text("se:cr@t")
        (folder / "password").chmod(0o644)
        init = [
            binaries / "initdb",
            "-D",
            folder / "data",
            "-U",
            "lcplan",
            "-A",
            "scram-sha-256",
            f"--pwfile={folder}/password",
        ]
        subprocess.run([*_as_user(), *map(str, init)], check=True, capture_output=True, cwd=folder)
        self.command = [binaries / "postgres", "-D", folder / "data", "-p", self.port, "-k", folder, "-c", "fsync=off"]

    def start(self) -> None:
        """Start it and wait until it listens."""
        self.process = subprocess.Popen([*_as_user(), *map(str, self.command)], stderr=subprocess.DEVNULL, cwd=self.folder)
        wait_for((self.folder / f".s.PGSQL.{self.port}").exists, 30)
        time.sleep(0.5)

    def stop(self) -> None:
        """Stop it at once: open connections are not waited for."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=20)

    def kill(self) -> None:
        """Kill every process of it."""
        for process in _family(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait(timeout=20)
        for left in (self.folder / "data" / "postmaster.pid", self.folder / f".s.PGSQL.{self.port}"):
            left.unlink(missing_ok=True)

    @property
    def url(self) -> str:
        """The URL of a study."""
        return f"postgresql://lcplan:se%3Acr%40t@127.0.0.1:{self.port}/postgres"


def _family(parent: int) -> list[int]:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [parent, *map(int, children)]


def wait_for(there: Any, seconds: float) -> None:
    """Wait until ``there()`` holds."""
    end = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < end, "it did not come in time"
        time.sleep(0.1)


@contextmanager
def new_server() -> Iterator[Server]:
    """Start a server in a folder of its own, or skip the test."""
    binaries = _binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL here: apt-get install postgresql")
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip('no driver: pip install "lcplan[postgresql]"')
    if _as_user() and (shutil.which("setpriv") is None or "postgres" not in {user.pw_name for user in pwd.getpwall()}):
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    with TemporaryDirectory(prefix="pg") as name:
        folder = Path(name)
        folder.chmod(0o777)
        running = Server(binaries, folder)
        running.start()
        try:
            yield running
        finally:
            running.stop()
