"""Engines on futures: what a worker is sent and returns, and who is asked next; with workers that are functions."""

from __future__ import annotations

import sys
from concurrent.futures import Future
from pathlib import Path

import pytest
from pydantic import ValidationError

sys.path.insert(0, str(Path(__file__).parents[1]))

from measuring import odd_program, ring_job

from lcplan.formats.errors import BadInputError
from planner.measure.engines import remote_job
from planner.measure.engines.choose import choose_engine
from planner.measure.engines.dask_engine import resources
from planner.measure.engines.futures import ATTEMPTS, FuturesEngine
from planner.measure.engines.remote_job import RemoteAnswer, RemoteJob, run_remote, sent
from planner.measure.jobs import compile_jobs
from planner.measure.targets.toolchain import probe
from planner.measure.work import ProgramWork
from planner.measure.workers.pool import PoolLimits

LIMITS = PoolLimits(wall_s=120)


class Scripted(FuturesEngine):
    """An engine whose workers answer by a list; each answer is (worker, fields of RemoteAnswer) or an exception."""

    name = "scripted"

    def __init__(self, *answers):
        self.answers, self.attempts = list(answers), []

    def submit(self, attempt, limits, *, priority):
        self.attempts.append(attempt)
        future, answer = Future(), self.answers.pop(0)
        if isinstance(answer, Exception):
            future.set_exception(answer)
        elif isinstance(answer, tuple):
            worker, facts = answer
            future.set_result(RemoteAnswer(key=attempt.work.key, worker=worker, **facts).model_dump_json())
        else:
            future.set_result(answer)
        return future

    def idle_reason(self, work):
        return None

    def close(self):
        pass


GOOD = {"result": {"total_bytes": 7}, "seconds": 1.0}
SICK = {"failure": ("exit", "worker ended with exit code 1")}


@pytest.fixture(scope="module")
def work():
    return ProgramWork(ring_job(context=2), "compile", toolchain=probe())


def _outcome(engine, work):
    ((same, outcome),) = engine.outcomes([work], LIMITS)
    assert same is work
    return outcome


def test_a_sick_workers_job_goes_to_another(work):
    engine = Scripted(("a", SICK), ("b", GOOD))
    assert _outcome(engine, work).result == {"total_bytes": 7}
    assert [attempt.avoid for attempt in engine.attempts] == [(), ("a",)]


def test_after_three_workers_it_is_a_failed_row(work):
    outcome = _outcome(Scripted(*(((worker, SICK),) for worker in "abc") and [(w, SICK) for w in "abc"]), work)
    assert outcome.failure.words == f"{ATTEMPTS} workers failed with this job; the last: worker ended with exit code 1"


def test_a_programs_own_error_stands(work):
    engine = Scripted(("a", {"failure": ("error", "shapes differ")}))
    assert _outcome(engine, work).failure.words == "shapes differ"


def test_a_worker_of_another_toolchain_passes_the_job_on(work):
    engine = Scripted(("a", {"foreign": "its jax is 0.0.1"}), ("b", GOOD))
    assert _outcome(engine, work).result is not None
    strangers = Scripted(*[(worker, {"foreign": "its jax is 0.0.1"}) for worker in "abc"])
    assert _outcome(strangers, work).failure.words == "no worker has its toolchain: its jax is 0.0.1"


@pytest.mark.parametrize("text", ["", "[]", '{"key": "other", "worker": "a", "result": {}}', 7])
def test_what_is_no_answer_is_asked_again(work, text):
    assert _outcome(Scripted(text, ("b", GOOD)), work).result is not None


def test_an_engines_own_error_is_a_row(work):
    outcome = _outcome(Scripted(RuntimeError("KilledWorker: 4 workers died")), work)
    assert (outcome.failure.kind, outcome.failure.words) == ("killed", "scripted: RuntimeError: KilledWorker: 4 workers died")


def test_a_worker_that_fails_twice_is_avoided_for_other_jobs_too():
    toolchain = probe()
    jobs = [ProgramWork(ring_job(context=2, layers=2 + n), "compile", toolchain=toolchain) for n in range(3)]
    engine = Scripted(("a", SICK), ("a", SICK), ("c", SICK), *[("b", GOOD)] * 3)
    assert len(list(engine.outcomes(jobs, LIMITS))) == 3
    later = [attempt.avoid for attempt in engine.attempts[3:]]
    assert "a" in later[-1]


def test_a_worker_runs_what_it_is_sent(work):
    answer = RemoteAnswer.model_validate_json(run_remote(sent(work, LIMITS)))
    assert answer.foreign is None
    assert answer.result["total_bytes"] > 0


def test_a_worker_of_another_lcplan_returns_the_job(work, monkeypatch):
    other = probe().model_copy(update={"versions": {**probe().versions, "jaxlib": "0.0.1"}})
    monkeypatch.setattr(remote_job, "worker_toolchain", lambda: other)
    answer = RemoteAnswer.model_validate_json(run_remote(sent(work, LIMITS)))
    assert answer.foreign.startswith("its lcplan, jax or processor is not that of the search")


def test_a_worker_runs_no_program_but_lcplans():
    job = RemoteJob(key="k", purpose="compile", job=ring_job(context=2), wall_s=1).model_dump(mode="json")
    job["job"]["program"] = odd_program("counts").model_dump(mode="json")
    with pytest.raises(ValidationError, match="not a program of lcplan"):
        RemoteJob.model_validate(job)


def test_resources_are_compiles_and_devices(work):
    assert resources(work) == {"compile": 1}
    assert resources(ProgramWork(ring_job(context=2), "time", toolchain=probe())) == {"cpu": 1}


@pytest.mark.parametrize(
    "word", ["dask", "dask:0", "dask:x", "dask://", "dask://host", "dask://host:1;rm", "parsl:", "parsl:no.py", "slurm", ""]
)
def test_words_that_are_no_engine(word):
    with pytest.raises(BadInputError, match="--engine"):
        choose_engine(word, probe())


def test_rows_are_those_of_a_local_compile(work):
    remote = Scripted(("a", {"result": {"total_bytes": 7, "compile_s": 1.0, "warnings": []}}))
    ((_, row),) = compile_jobs([work.job], toolchain=probe(), pool=LIMITS, store=None, engine=remote)
    assert (row.total_bytes, row.rung, row.error) == (7, "compiled:target", None)
