"""A study on a real PostgreSQL server: a restart in the middle of a search loses nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from postgresql_server import Server, new_server, wait_for

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


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with new_server() as running:
        yield running


@pytest.fixture(scope="module")
def postgresql(server: Server) -> str:
    return server.url


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
        wait_for(lambda: len(_results(postgresql)) >= 1, 90)
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
