"""The pool against workers that do wrong: whatever they do is an outcome, and none is left behind."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.measure.workers.pool import Outcome, PoolLimits, Task, run_tasks
from planner.measure.workers.process import Launch, clean_environment

WORKER = """
import json, os, signal, sys, time
for line in sys.stdin:
    job = json.loads(line)
    do = job["do"]
    answer = {"id": job["id"], "result": {"pid": os.getpid(), "flag": os.environ.get("FLAG")}}
    if do == "ok":
        time.sleep(job.get("s", 0))
    elif do == "abort":
        os.write(2, b"F1127 10:00:00.0  1 x.cc:1] Check failed: the compiler's own words\\n")
        os.abort()
    elif do == "abort-used" and (done := globals().get("done")):
        os.abort()
    elif do == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif do == "exit":
        print("Traceback", "ModuleNotFoundError: No module named 'jax'", sep="\\n", file=sys.stderr)
        sys.exit(1)
    elif do == "garbage":
        print("what is this", flush=True)
        print("{not json", flush=True)
        sys.exit(0)
    elif do == "hang":
        time.sleep(600)
    elif do == "children":
        child = os.fork()
        if child == 0:
            time.sleep(600)
        open(job["file"], "w").write(str(child))
        time.sleep(600)
    elif do == "eat":
        eaten = bytearray(b"x" * (300 << 20))
        time.sleep(600)
    elif do == "fail":
        answer = {"id": job["id"], "error": "INVALID_ARGUMENT: no such option", "kind": "error"}
    elif do == "stale":
        print(json.dumps({"id": "another job", "result": {}}), flush=True)
    elif do == "loud":
        os.write(2, b"x" * 3_000_000 + b"\\nlast line\\n")
    globals()["done"] = True
    print(json.dumps(answer), flush=True)
"""
LAUNCH = Launch((sys.executable, "-c", WORKER))


def tasks(*dos: str, **more: object) -> list[Task]:
    return [Task(LAUNCH, {"id": f"{i}-{do}", "do": do, **more}) for i, do in enumerate(dos)]


def run(*dos: str, jobs: int = 1, wall_s: float = 20, memory_bytes: int = 2**31, **more: object) -> dict[str, Outcome]:
    limits = PoolLimits(jobs=jobs, wall_s=wall_s, memory_bytes=memory_bytes)
    return {str(outcome.task.request["do"]): outcome for outcome in run_tasks(tasks(*dos, **more), limits)}


def gone(pid: int, within_s: float = 5) -> bool:
    """Whether the process is gone and reaped (a zombie still has its id)."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_one_worker_serves_many_jobs_and_is_gone_afterwards() -> None:
    outcomes = list(run_tasks(tasks("ok", "ok", "ok"), PoolLimits()))
    pids = {outcome.result["pid"] for outcome in outcomes if outcome.result}
    assert len(outcomes) == 3
    assert len(pids) == 1
    assert all(gone(pid) for pid in pids)


def test_jobs_run_side_by_side() -> None:
    start = time.monotonic()
    outcomes = list(run_tasks(tasks("ok", "ok", s=1.0), PoolLimits(jobs=2)))
    assert time.monotonic() - start < 1.9
    assert len({outcome.result["pid"] for outcome in outcomes if outcome.result}) == 2


def test_another_environment_is_another_worker() -> None:
    two = [Task(Launch(LAUNCH.command, (("FLAG", flag),)), {"id": flag, "do": "ok"}) for flag in ("a", "b")]
    results = [outcome.result for outcome in run_tasks(two, PoolLimits())]
    assert [result["flag"] for result in results if result] == ["a", "b"]


@pytest.mark.parametrize(
    ("do", "kind", "words"),
    [
        ("abort", "crash", "worker died of SIGABRT: Check failed: the compiler's own words"),
        ("kill", "killed", "worker was ended by SIGKILL from outside, most likely by the kernel for want of memory"),
        (
            "exit",
            "exit",
            "worker ended with exit code 1 without a result: ModuleNotFoundError: No module named 'jax'",
        ),
        ("garbage", "exit", "worker ended with exit code 0 without a result: it printed '{not json'"),
        ("fail", "error", "INVALID_ARGUMENT: no such option"),
    ],
)
def test_a_bad_job_is_an_outcome_and_the_next_one_runs(do: str, kind: str, words: str) -> None:
    outcomes = run(do, "ok")
    failure = outcomes[do].failure
    assert failure is not None
    assert (failure.kind, failure.words) == (kind, words)
    assert outcomes["ok"].failure is None
    assert outcomes["ok"].result is not None


def test_a_hanging_worker_is_killed_at_its_limit() -> None:
    start = time.monotonic()
    failure = run("hang", wall_s=0.5)["hang"].failure
    assert failure is not None
    assert (failure.kind, failure.words) == ("timeout", "no result after 0.5 s; the worker was killed")
    assert time.monotonic() - start < 5


def test_what_a_hanging_worker_started_dies_with_it(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    run("children", wall_s=1.5, file=str(file))
    assert gone(int(file.read_text()))


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from /proc")
def test_a_worker_that_eats_memory_is_killed() -> None:
    failure = run("eat", memory_bytes=200 << 20)["eat"].failure
    assert failure is not None
    assert failure.kind == "memory"
    assert "above its 200.0 MiB, and was killed" in failure.words


def test_a_used_worker_that_dies_is_not_held_against_the_job() -> None:
    outcomes = run("ok", "abort-used")
    assert outcomes["abort-used"].failure is None  # a fresh worker did it


def test_an_answer_to_another_job_is_no_answer() -> None:
    outcome = run("stale")["stale"]
    assert outcome.result is not None
    assert "pid" in outcome.result


def test_megabytes_on_stderr_neither_block_nor_lose_the_end() -> None:
    outcome = run("loud")["loud"]
    assert outcome.result is not None
    assert outcome.stderr.endswith("last line\n")
    assert len(outcome.stderr) <= 2**20


def test_a_python_that_is_not_there_is_an_error_of_the_caller() -> None:
    with pytest.raises(FileNotFoundError):
        list(run_tasks([Task(Launch(("/nowhere/python",)), {"id": 1})], PoolLimits()))


def test_leaving_early_ends_the_workers(tmp_path: Path) -> None:
    outcomes: Iterator[Outcome] = run_tasks(tasks("ok", "children", file=str(tmp_path / "pid")), PoolLimits(jobs=2))
    first = next(outcomes)
    assert first.result is not None
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.02)
    outcomes.close()  # type: ignore[attr-defined]
    assert gone(first.result["pid"])
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_shells_settings_of_jax_do_not_reach_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_no_such_flag")
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    monkeypatch.setenv("HOME", "/somewhere")
    made = clean_environment((("JAX_PLATFORMS", "cpu"),))
    assert "XLA_FLAGS" not in made
    assert "JAX_ENABLE_X64" not in made
    assert (made["HOME"], made["JAX_PLATFORMS"]) == ("/somewhere", "cpu")
