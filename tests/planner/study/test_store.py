"""The store: results come back, requests share it, nothing half-written, nothing lost."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from lcplan.formats.errors import StageFailedError
from planner.study import Store

KINDS = ("sqlite:///{}/study.db", "journal:{}/study.log")
TESTS = Path(__file__).parents[1]


def put(store: Store, key: str, **result: object) -> None:
    store.put(key, rung="compiled:target", strategy={"devices": 2}, result={"total_bytes": 100, **result})


@contextmanager
def script(body: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A Python of its own that runs ``body`` with the tests' modules at hand; killed on the way out."""
    head = f"import sys; sys.path.insert(0, {str(TESTS / 'measure')!r})\nfrom planner.study import Store\n"
    command = [sys.executable, "-c", head + textwrap.dedent(body), *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.param).format(tmp_path)


def test_results_come_back_in_another_process_life(url: str) -> None:
    store = Store.open(url)
    assert store.get("a") is None
    put(store, "a", error=None)
    put(store, "b", error="it does not compile")
    store.close()
    again = Store.open(url)
    assert again.get("a") == {"total_bytes": 100, "error": None}
    assert again.get("b") == {"total_bytes": 100, "error": "it does not compile"}
    assert set(again.results) == {"a", "b"}
    again.close()


def test_two_open_stores_see_each_others_results(url: str) -> None:
    one, two = Store.open(url), Store.open(url)
    put(one, "a")
    assert two.get("a") is not None
    put(two, "a", total_bytes=7)  # both were at it: the first result stays
    assert one.get("a") == Store.open(url).get("a") == {"total_bytes": 100}
    one.close()
    two.close()


def test_trials_are_optunas_own(url: str) -> None:
    import optuna

    from planner.study.location import open_storage

    store = Store.open(url)
    put(store, "a")
    put(store, "b", total_bytes=None, error="no")
    store.close()
    study = optuna.load_study(study_name="lcplan", storage=open_storage(url))
    assert [(trial.state.name, trial.user_attrs["rung"]) for trial in study.trials] == [
        ("COMPLETE", "compiled:target"),
        ("FAIL", "compiled:target"),
    ]
    assert study.trials[0].value == 100


def test_requests_share_a_study(url: str) -> None:
    put(Store.open(url), "a")
    other = Store.open(url)
    put(other, "b")
    assert set(Store.open(url).results) == {"a", "b"}


class _Restarting:
    """A study whose server is away for the first calls."""

    def __init__(self, failures: int) -> None:
        self.failures, self.trials = failures, []

    def _call(self) -> None:
        if self.failures:
            self.failures -= 1
            raise ConnectionError("connection failed: server closed the connection unexpectedly")

    def add_trial(self, trial: object) -> None:
        self._call()
        self.trials.append(trial)

    def get_trials(self, deepcopy: bool) -> list[object]:
        self._call()
        return self.trials


def test_a_database_that_comes_back_within_the_grace_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planner.study.store.RETRY_S", 0.01)
    study = _Restarting(0)
    store = Store("postgresql://db/lcplan", study, storage=None, grace_s=30)
    study.failures = 3
    put(store, "a")
    assert len(study.trials) == 1


def test_a_database_that_stays_away_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planner.study.store.RETRY_S", 0.01)
    with pytest.raises(StageFailedError, match="the server cannot be reached"):
        Store("postgresql://u:hidden@db/lcplan", _Restarting(10**6), storage=None, grace_s=0)


def test_foreign_trials_do_not_disturb(url: str) -> None:
    import optuna

    from planner.study.location import open_storage

    Store.open(url).close()
    study = optuna.load_study(study_name="lcplan", storage=open_storage(url))
    study.enqueue_trial({"x": 1}, user_attrs={"key": "waiting"})
    study.add_trial(optuna.trial.create_trial(value=1.0, user_attrs={"key": 3, "result": "no"}))
    assert Store.open(url).results == {}


@pytest.mark.parametrize("content", [b"not a database at all, but long enough to look at", b"SQLite format 3\0" + b"\1" * 5000])
def test_a_damaged_database_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "study.db").write_bytes(content)
    with pytest.raises(StageFailedError, match="damaged; move it away or choose another folder"):
        Store.open(f"sqlite:///{tmp_path}/study.db")
    assert (tmp_path / "study.db").read_bytes() == content  # and left as it was


def test_a_damaged_journal_is_named(tmp_path: Path) -> None:
    (tmp_path / "study.log").write_text("this is no journal\nat all\n")
    with pytest.raises(StageFailedError, match="the journal is damaged"):
        Store.open(f"journal:{tmp_path}/study.log")


def test_a_database_of_something_else_is_not_taken_over(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "study.db") as connection:
        connection.execute("create table alembic_version (version_num varchar(32))")
        connection.execute("insert into alembic_version values ('of another program')")
    with pytest.raises(StageFailedError, match=r"study sqlite:///"):
        Store.open(f"sqlite:///{tmp_path}/study.db")


def test_a_database_that_may_not_be_written(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    Store.open(url).close()
    with pytest.raises(StageFailedError, match="it cannot be written; choose another folder"):
        Store.open(f"sqlite:///file:{tmp_path}/study.db?mode=ro&uri=true")


FULL_DISK = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = Store.open(sys.argv[1])
store.put("first", rung="r", strategy={}, result={"total_bytes": 1})
size = __import__("os").stat(sys.argv[2]).st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))  # a disk with no room left for this file
try:
    for number in range(50):
        store.put(str(number), rung="r", strategy={}, result={"total_bytes": 1, "words": "x" * 20000})
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(("kind", "file"), [(KINDS[0], "study.db"), (KINDS[1], "study.log")])
def test_a_full_disk_is_said_and_what_was_there_stays(tmp_path: Path, kind: str, file: str) -> None:
    url = kind.format(tmp_path)
    with script(FULL_DISK, url, tmp_path / file) as writer:
        out, err = writer.communicate(timeout=60)
    assert out.startswith("StageFailedError study"), err
    assert "full" in out
    assert Store.open(url).get("first") == {"total_bytes": 1}


WRITER = """
import time
while time.time() < float(sys.argv[3]):
    pass
store = Store.open(sys.argv[1])
for number in range(15):
    store.put(f"{sys.argv[2]}-{number}", rung="r", strategy={}, result={"total_bytes": number})
"""


def test_two_searches_at_once_in_a_new_study(url: str) -> None:
    start = time.time() + 2
    with ExitStack() as stack:
        for writer in [stack.enter_context(script(WRITER, url, name, start)) for name in ("a", "b", "c")]:
            _, err = writer.communicate(timeout=100)
            assert (writer.returncode, err) == (0, "")
    assert set(Store.open(url).results) == {f"{name}-{number}" for name in "abc" for number in range(15)}


ENDLESS = """
store = Store.open(sys.argv[1])
number = 0
while True:
    store.put(str(number), rung="r", strategy={"x": "y" * 1000}, result={"total_bytes": number, "text": "z" * 5000})
    print(number, flush=True)
    number += 1
"""


def test_kill_9_in_the_middle_of_writing_leaves_whole_results(url: str) -> None:
    rounds = 3 if url.startswith("sqlite") else 1  # a journal waits ten seconds for the lock of the dead
    for round_ in range(rounds):
        with script(ENDLESS, url) as writer:
            assert writer.stdout is not None
            last = [int(writer.stdout.readline()) for _ in range(4 + 3 * round_)][-1]
            writer.kill()
        results = Store.open(url).results
        assert {str(number) for number in range(last + 1)} <= set(results)
        assert all(result["total_bytes"] == int(key) and len(result["text"]) == 5000 for key, result in results.items())


SEARCH = """
from measuring import ring_job
from planner.measure import PoolLimits, compile_jobs, probe
store = Store.open(sys.argv[1])
jobs = [ring_job(context=2, layers=n) for n in (2, 3, 4)]
for job, row in compile_jobs(jobs, toolchain=probe(), pool=PoolLimits(), store=store):
    print(job.model.layers, job in store.served, flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_search_resumes_with_the_rest(tmp_path: Path, number: signal.Signals) -> None:
    url = KINDS[0].format(tmp_path)
    with script(SEARCH, url) as search:
        assert search.stdout is not None
        done = [search.stdout.readline().split()]
        os.kill(search.pid, number)
        rest, _ = search.communicate(timeout=60)
        done += [line.split() for line in rest.splitlines()]
    with script(SEARCH, url) as search:
        out, err = search.communicate(timeout=120)
    again = [line.split() for line in out.splitlines()]
    assert len(again) == 3, err
    served = {layers for layers, from_store in again if from_store == "True"}
    assert {layers for layers, _ in done} <= served  # nothing that was there is compiled again
    assert len(served) < 3


def test_opening_says_nothing_and_warns_of_nothing(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    store = Store.open(url)
    put(store, "a")
    store.close()
    assert capfd.readouterr() == ("", "")
