"""A study on a real PostgreSQL server: a restart in the middle of a search loses nothing."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from lcplan.formats.errors import BadInputError, StageFailedError
from planner.study import Store

TESTS = Path(__file__).parents[1]
SEARCH = f"""
import sys; sys.path.insert(0, {str(TESTS / "measure")!r})
from measuring import ring_job
from planner.measure import PoolLimits, compile_jobs, probe
from planner.study import Store
store = Store.open(sys.argv[1])
jobs = [ring_job(context=2, layers=2 + n) for n in range(int(sys.argv[2]))]
for job, row in compile_jobs(jobs, toolchain=probe(), pool=PoolLimits(), store=store):
    print(job.model.layers, row.error, flush=True)
"""


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
        _wait_for((self.folder / f".s.PGSQL.{self.port}").exists, 30)
        time.sleep(0.5)

    def stop(self) -> None:
        """Stop it at once: open connections are not waited for."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=20)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
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


@pytest.fixture(scope="module")
def postgresql(server: Server) -> str:
    return f"postgresql://lcplan:se%3Acr%40t@127.0.0.1:{server.port}/postgres"


def _wait_for(there: Any, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < end, "it did not come in time"
        time.sleep(0.1)


def _start(stack: ExitStack, code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    stack.callback(process.kill)
    return process


def _results(url: str) -> dict[str, object]:
    with closing(Store.open(url)) as store:
        return dict(store.results)


def test_a_server_that_restarts_during_a_search_loses_nothing(postgresql: str, server: Server) -> None:
    with ExitStack() as stack:
        search = _start(stack, SEARCH, postgresql, 4)
        _wait_for(lambda: len(_results(postgresql)) >= 1, 90)
        server.stop()
        time.sleep(3)
        server.start()
        out, err = search.communicate(timeout=240)
        assert search.returncode == 0, err
    assert sorted(out.splitlines()) == sorted(f"{2 + n} None" for n in range(4))
    assert len(_results(postgresql)) == 4


def test_a_wrong_password_is_said_and_never_shown(postgresql: str) -> None:
    wrong = postgresql.replace("se%3Acr%40t", "other")
    with pytest.raises(StageFailedError, match="refuses user or password") as caught:
        Store.open(wrong)
    assert "other" not in str(caught.value)
    assert "***" in str(caught.value)


def test_a_server_that_is_not_there() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(StageFailedError, match="the server cannot be reached") as caught:
        Store.open("postgresql://lcplan:hidden@127.0.0.1:1/nothing")
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("url", ["sqlite:///{}/study.db", "journal:{}/study.log"])
def test_a_search_resumes(tmp_path: Path, url: str) -> None:
    where = url.format(tmp_path)
    with ExitStack() as stack:
        for jobs, words in ((2, ["2 None", "3 None"]), (3, ["2 None", "3 None", "4 None"])):
            out, err = _start(stack, SEARCH, where, jobs).communicate(timeout=120)
            assert sorted(out.splitlines()) == words, err
    assert len(_results(where)) == 3


def test_a_location_that_is_no_storage() -> None:
    with pytest.raises(BadInputError, match="no storage that lcplan knows"):
        Store.open("redis://somewhere/0")
