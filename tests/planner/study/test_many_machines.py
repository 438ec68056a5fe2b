"""A study on a real PostgreSQL server: workers share its jobs, one is killed in the middle, each job is done once."""

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
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from lcplan.formats.errors import BadInputError, StageFailedError
from planner.study.location import LEAST_GRACE_S, open_storage
from planner.study.shared import Shared

TESTS = Path(__file__).parents[1]
REQUEST = {"model": {"name": "ring"}}
WORKER = "import sys; from planner.cli.main import main; main()"
SEARCH = f"""
import sys; sys.path.insert(0, {str(TESTS / "measure")!r})
from measuring import ring_job
from planner.measure import PoolLimits, compile_jobs, probe
from planner.study.shared import Shared
store = Shared.open(sys.argv[1], {REQUEST!r})
jobs = [ring_job(context=2, layers=2 + n) for n in range(int(sys.argv[2]))]
for job, row in compile_jobs(jobs, toolchain=probe(), pool=PoolLimits(jobs=int(sys.argv[3])), store=store):
    print(job.model.layers, row.error, flush=True)
"""


def _binaries() -> Path | None:
    found = shutil.which("initdb")
    folders = [*sorted(Path("/usr/lib/postgresql").glob("*/bin")), *([Path(found).parent] if found else [])]
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists()), None)


def _as_user() -> list[str]:
    """PostgreSQL refuses to run as root."""
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    """The URL of a server of its own, with a password."""
    binaries = _binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL here: apt-get install postgresql")
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip('no driver: pip install "lcplan[postgresql]"')
    if _as_user() and (shutil.which("setpriv") is None or "postgres" not in {user.pw_name for user in pwd.getpwall()}):
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    with TemporaryDirectory(prefix="pg") as name, socket.socket() as free:
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "password").write_text("se:cr@t")
        (folder / "password").chmod(0o644)
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
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
        serve = [binaries / "postgres", "-D", folder / "data", "-p", port, "-k", folder, "-c", "fsync=off"]
        server = subprocess.Popen([*_as_user(), *map(str, serve)], stderr=subprocess.DEVNULL, cwd=folder)
        try:
            _wait_for((folder / f".s.PGSQL.{port}").exists, 30)
            time.sleep(0.5)
            yield f"postgresql://lcplan:se%3Acr%40t@127.0.0.1:{port}/postgres"
        finally:
            server.send_signal(signal.SIGINT)  # at once: open connections are not waited for
            server.wait(timeout=20)


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


def _trials(url: str) -> list[Any]:
    shared = Shared.join(url)
    if shared is None:
        return []
    trials = shared._study.get_trials(deepcopy=False)
    shared.close()
    return list(trials)


def test_three_workers_one_killed_every_job_once(postgresql: str) -> None:
    options = ("worker", "--study", postgresql, "--grace", "5", "--wait", "15")
    with ExitStack() as stack:
        search = _start(stack, SEARCH, postgresql, 12, 0)
        first = _start(stack, WORKER, *options)
        _wait_for(lambda: any(trial.state.name == "RUNNING" for trial in _trials(postgresql)), 60)
        others = [_start(stack, WORKER, *options) for _ in range(2)]
        first.kill()
        out, err = search.communicate(timeout=240)
        assert search.returncode == 0, err
        said = [worker.communicate(timeout=60)[1] for worker in others]
    assert sorted(out.splitlines()) == sorted(f"{2 + n} None" for n in range(12))
    trials = _trials(postgresql)
    done = [trial for trial in trials if trial.state.name == "COMPLETE"]
    assert set(Counter(trial.user_attrs["key"] for trial in done).values()) == {1}
    assert len(done) == 12
    lost = [trial for trial in trials if trial.state.name == "FAIL"]
    assert len(lost) == 1  # what the killed one held
    assert "result" not in lost[0].user_attrs
    assert all("jobs done" in words for words in said)


def test_a_wrong_password_is_said_and_never_shown(postgresql: str) -> None:
    wrong = postgresql.replace("se%3Acr%40t", "other")
    with pytest.raises(StageFailedError, match="refuses user or password") as caught:
        Shared.open(wrong, REQUEST)
    assert "other" not in str(caught.value)
    assert "***" in str(caught.value)


def test_a_server_that_is_not_there() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(StageFailedError, match="the server cannot be reached") as caught:
        Shared.open("postgresql://lcplan:hidden@127.0.0.1:1/nothing", REQUEST)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("url", ["sqlite:///{}/study.db", "journal:{}/study.log"])
def test_the_search_itself_works_a_queue_off_and_resumes(tmp_path: Path, url: str) -> None:
    where = url.format(tmp_path)
    with ExitStack() as stack:
        out, err = _start(stack, SEARCH, where, 2, 1).communicate(timeout=120)
        assert sorted(out.splitlines()) == ["2 None", "3 None"], err
        out, err = _start(stack, SEARCH, where, 3, 1).communicate(timeout=120)
        assert sorted(out.splitlines()) == ["2 None", "3 None", "4 None"], err
    assert [trial.state.name for trial in _trials(where)] == ["COMPLETE"] * 3


@pytest.mark.parametrize("url", ["sqlite:///{}/study.db", "journal:{}/study.log"])
def test_a_job_is_claimed_once_and_handed_back(tmp_path: Path, url: str) -> None:
    one, two = (Shared.open(url.format(tmp_path), REQUEST).queue for _ in range(2))
    one.post({"key": "a", "purpose": "compile", "job": {"strategy": {}}})
    held = one.claim(lambda attributes: True)
    assert held is not None
    assert two.claim(lambda attributes: True) is None
    one.hand_back(held)
    again = two.claim(lambda attributes: attributes["key"] == "a")
    assert again is not None
    assert not one.finish(held, value=1.0, attributes={"result": {}})  # no longer ours
    assert two.finish(again, value=1.0, attributes={"result": {"total_bytes": 1}})
    assert one.claim(lambda attributes: True) is None
    assert Shared.open(url.format(tmp_path), REQUEST).get("a") == {"total_bytes": 1}


def test_what_nobody_has_begun_is_withdrawn(tmp_path: Path) -> None:
    queue = Shared.open(f"sqlite:///{tmp_path}/study.db", REQUEST).queue
    for key in ("a", "b"):
        queue.post({"key": key, "purpose": "compile", "job": {"strategy": {}}})
    queue.withdraw({"a"})
    assert queue.open_jobs() == {"b": "WAITING"}


def test_no_study_yet(tmp_path: Path) -> None:
    assert Shared.join(f"sqlite:///{tmp_path}/study.db") is None
    with pytest.raises(BadInputError, match="no storage that lcplan knows"):
        Shared.join("redis://somewhere/0")


@pytest.mark.parametrize("grace_s", [LEAST_GRACE_S, 40, 600])
def test_heartbeats_are_as_often_whatever_a_workers_grace_is(tmp_path: Path, grace_s: int) -> None:
    """A patient worker's job must not look dead to an impatient one."""
    assert open_storage(f"sqlite:///{tmp_path}/study.db", grace_s=grace_s).get_heartbeat_interval() <= LEAST_GRACE_S / 2


def test_a_worker_that_dies_in_the_moment_it_takes_a_job_has_lost_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = f"sqlite:///{tmp_path}/study.db"
    queue = Shared.open(where, REQUEST).queue
    queue.post({"key": "a", "purpose": "compile", "job": {"strategy": {}}})

    def take_and_die(trial_id: int, state: Any) -> bool:
        queue._storage.set_trial_state_values(trial_id, state)
        raise SystemExit

    monkeypatch.setattr(queue, "_set", take_and_die)
    with pytest.raises(SystemExit):
        queue.claim(lambda attributes: True)
    later = Shared.join(where, grace_s=1)
    assert later is not None
    assert later.queue.open_jobs() == {"a": "RUNNING"}
    _wait_for(lambda: later.queue.reap() or later.queue.open_jobs() == {}, 5)
    assert later.queue.lost(0) == {"a": 1}
