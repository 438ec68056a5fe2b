"""The crew of a shared study: no job twice, none that kills for ever, none of another toolchain, none lost to a SIGTERM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "measure"))

from measuring import odd_program, ring_job

from planner.measure.jobs import Work
from planner.measure.targets.toolchain import Toolchain, probe
from planner.measure.workers.job import CompileJob
from planner.measure.workers.pool import PoolLimits
from planner.study.shared import DEATHS, Crew, Shared

REQUEST = {"model": {"name": "ring"}}
LIMITS = PoolLimits(jobs=1, wall_s=120)
WORKER = "import sys; from planner.cli.main import main; main()"


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    return probe()


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    return Shared.open(f"sqlite:///{tmp_path}/study.db", REQUEST)


def _work(job: CompileJob, toolchain: Toolchain) -> Work:
    return Work(job, "compile", toolchain=toolchain)


def _post(shared: Shared, work: Work) -> None:
    shared.queue.post({"key": work.key, "purpose": work.purpose, "job": work.job.model_dump(mode="json")})


def test_what_two_searches_posted_in_the_same_moment_is_done_once(
    shared: Shared, toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODD_LOG_FILE", str(tmp_path / "log"))
    work = _work(ring_job(context=2, program=odd_program("counts")), toolchain)
    _post(shared, work)
    _post(shared, work)
    crew = Crew(shared, toolchain)
    assert len(list(crew.shift(PoolLimits(jobs=2, wall_s=120)))) == 1
    assert crew.done == 1
    assert len((tmp_path / "log").read_text().splitlines()) == 1
    assert shared.queue.open_jobs() == {}
    assert shared.get(work.key) is not None


def test_the_younger_twin_waits_for_the_older(shared: Shared) -> None:
    queue = shared.queue
    for _ in range(2):
        queue.post({"key": "a", "purpose": "compile", "job": {"strategy": {}}})
    held = queue.claim(lambda attributes: True)
    assert held is not None
    assert queue.claim(lambda attributes: True) is None
    assert queue.finish(held, value=1.0, attributes={"result": {"total_bytes": 1}})
    twin = queue.claim(lambda attributes: True)
    assert twin is not None
    assert twin.trial_id != held.trial_id


def test_a_job_that_ends_its_workers_is_a_failed_row_after_three(shared: Shared, toolchain: Toolchain) -> None:
    from optuna.trial import TrialState

    work = _work(ring_job(context=2), toolchain)
    over, taken = threading.Event(), []

    def die_with_it() -> None:
        queue = Shared.join(shared.url).queue  # type: ignore[union-attr]
        while not over.wait(0.05):
            held = queue.claim(lambda attributes: True)
            if held is not None:
                taken.append(held.trial_id)
                queue._set(held.trial_id, TrialState.FAIL)  # as the heartbeat's absence does

    thread = threading.Thread(target=die_with_it, daemon=True)
    thread.start()
    ((same, row),) = shared.work_off([work], PoolLimits(jobs=0))
    over.set()
    thread.join()
    assert same is work
    assert row.error == f"{DEATHS} lcplan workers died with this job"
    assert len(taken) == DEATHS
    assert shared.results == {}  # the next search tries again


def test_a_job_of_another_toolchain_is_left_to_it(shared: Shared, toolchain: Toolchain) -> None:
    other = toolchain.model_copy(update={"versions": {**toolchain.versions, "jaxlib": "0.0.1"}})
    work = _work(ring_job(context=2), toolchain)
    _post(shared, work)
    stranger = Crew(shared, other)
    assert list(stranger.shift(LIMITS)) == []
    assert stranger.foreign == {work.key}
    assert shared.queue.open_jobs() == {work.key: "WAITING"}
    assert len(list(Crew(shared, toolchain).shift(LIMITS))) == 1


def test_a_timing_has_the_worker_for_itself(shared: Shared, toolchain: Toolchain) -> None:
    jobs = [(ring_job(context=2), "compile"), (ring_job(context=2), "time"), (ring_job(context=2, layers=3), "compile")]
    for job, purpose in jobs:
        _post(shared, Work(job, purpose, toolchain=toolchain))
    crew = Crew(shared, toolchain)
    taken = [crew._take(), crew._take(), crew._take()]
    assert [task and task.request["job"]["purpose"] for task in taken] == ["compile", "compile", None]
    crew._held = {}  # both are done
    timing = crew._take()
    assert timing is not None
    assert timing.request["job"]["purpose"] == "time"
    _post(shared, Work(ring_job(context=2, layers=4), "compile", toolchain=toolchain))
    assert crew._take() is None


def test_sigterm_hands_the_job_back(shared: Shared, toolchain: Toolchain, tmp_path: Path) -> None:
    measure = str(Path(__file__).parents[1] / "measure")
    job = ring_job(context=2, program=odd_program("hangs"))
    work = _work(job, toolchain)
    _post(shared, work)
    path = os.pathsep.join(filter(None, (measure, os.environ.get("PYTHONPATH", ""))))
    environment = {**os.environ, "ODD_PID_FILE": str(tmp_path / "pid"), "PYTHONPATH": path}
    command = [sys.executable, "-c", WORKER, "worker", "--study", shared.url]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as worker:
        end = time.monotonic() + 60
        while not (tmp_path / "pid").exists():
            assert time.monotonic() < end
            assert worker.poll() is None
            time.sleep(0.05)
        assert shared.queue.open_jobs() == {work.key: "RUNNING"}
        worker.terminate()
        _, err = worker.communicate(timeout=30)
    assert worker.returncode == 128 + signal.SIGINT
    assert "Traceback" not in err
    assert shared.queue.open_jobs() == {work.key: "WAITING"}
    assert shared.queue.lost(0) == {}  # it was handed back, nobody died
