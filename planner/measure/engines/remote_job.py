"""A job as it travels to an engine's worker and back: lcplan's JSON, never code.

The worker builds the job again under its own toolchain. Where its key is another one (another lcplan, jax or processor),
it returns the job for a worker that has the same.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import Field, field_validator

from lcplan.formats.errors import BadInputError, LcplanError
from lcplan.formats.frozen import Frozen
from planner.measure.targets.at_hand import devices_at_hand
from planner.measure.targets.toolchain import Toolchain, probe
from planner.measure.work import ProgramWork, Work
from planner.measure.workers.exclusive import alone_on_this_machine
from planner.measure.workers.job import PROGRAMS, CompileJob, Purpose
from planner.measure.workers.pool import Outcome, Pool, PoolLimits
from planner.measure.workers.process import Failure, FailureKind

TOOLCHAIN_VARIABLE = "LCPLAN_TOOLCHAIN"
"""The variable that names a worker's Python, whose jax compiles."""
_PROCESSES = threading.local()


class RemoteJob(Frozen):
    """A job as a worker receives it."""

    key: str
    purpose: Purpose
    job: CompileJob
    wall_s: float = Field(gt=0)

    @field_validator("job")
    @classmethod
    def _ours(cls, job: CompileJob) -> CompileJob:
        if job.program not in PROGRAMS:  # its module is imported, and the folders of its packages are searched
            raise ValueError(f"program {job.program.module!r} is not a program of lcplan")
        return job


class RemoteAnswer(Frozen):
    """The answer of a worker. ``foreign``: why this worker cannot run the job."""

    key: str
    worker: str
    foreign: str | None = None
    result: dict[str, Any] | None = None
    failure: tuple[FailureKind, str] | None = None
    stderr: str = ""
    seconds: float = Field(default=0.0, ge=0)

    def outcome(self, work: Work) -> Outcome:
        """The outcome of ``work`` as a local worker would have given it."""
        failure = None if self.failure is None else Failure(*self.failure)
        return Outcome(work.task, self.result, failure, self.stderr, self.seconds)


def sent(work: Work, limits: PoolLimits) -> str:
    """The JSON that runs ``work`` on a worker.

    Raises
    ------
    BadInputError
        It runs a file of the user's: workers run lcplan's own programs only.
    """
    if not isinstance(work, ProgramWork):
        raise BadInputError("workers of other machines run lcplan's own programs only; use --engine local for a step file")
    return RemoteJob(key=work.key, purpose=work.purpose, job=work.job, wall_s=limits.wall_s).model_dump_json()


def run_remote(text: str) -> str:
    """Run a job on this machine, on a thread of an engine's worker; every failure is an answer.

    The process that compiled stays for the next job of the thread, since importing jax takes seconds.
    """
    asked = RemoteJob.model_validate_json(text)
    here, work = _here(), _work(asked)
    if isinstance(work, str):
        return RemoteAnswer(key=asked.key, worker=here, foreign=work).model_dump_json()
    with alone_on_this_machine() if asked.purpose != "compile" else nullcontext():
        outcome = _run(work, PoolLimits(jobs=1, wall_s=asked.wall_s))
    return RemoteAnswer(
        key=asked.key,
        worker=here,
        result=outcome.result,
        failure=None if outcome.failure is None else (outcome.failure.kind, outcome.failure.words),
        stderr=outcome.stderr[-_STDERR_SENT:],
        seconds=outcome.seconds,
    ).model_dump_json()


def _here() -> str:
    """The name of this worker: its address in Dask, else host and process."""
    distributed = sys.modules.get("distributed")
    if distributed is not None:
        with contextlib.suppress(ValueError):  # no worker of Dask
            return str(distributed.get_worker().address)
    return f"{socket.gethostname()}:{os.getpid()}"


_STDERR_SENT = 20_000
"""Characters of a worker's stderr that travel: its warnings are in the last lines."""


def _work(asked: RemoteJob) -> ProgramWork | str:
    """The job under this machine's toolchain, or the reason why it is not run here."""
    toolchain = worker_toolchain()
    try:
        work = ProgramWork(asked.job, asked.purpose, toolchain=toolchain)
    except LcplanError as error:
        return str(error)
    if work.key != asked.key:
        versions = ", ".join(f"{name} {version}" for name, version in sorted(toolchain.versions.items()))
        return f"its lcplan, jax or processor is not that of the search ({versions})"
    found = devices_at_hand(asked.job.hardware)
    if asked.purpose == "time" and found < asked.job.strategy.devices:
        return f"it has {found} of the {asked.job.strategy.devices} devices"
    return work


@lru_cache(maxsize=1)
def worker_toolchain() -> Toolchain:
    """The toolchain of this worker: that of the variable LCPLAN_TOOLCHAIN, else this Python's."""
    return probe(os.environ.get(TOOLCHAIN_VARIABLE))


def _run(work: Work, limits: PoolLimits) -> Outcome:
    pool: Pool | None = getattr(_PROCESSES, "pool", None)
    if pool is None:
        pool = _PROCESSES.pool = Pool(limits)
    pool.limits = limits
    waiting = [work.task]
    (outcome,) = pool.run(lambda: waiting.pop() if waiting else None)
    return outcome


@dataclass(frozen=True)
class Attempt:
    """One try of a job on an engine. ``avoid``: workers that failed with it."""

    work: Work
    number: int = 1
    avoid: tuple[str, ...] = ()


def read_answer(text: object, attempt: Attempt) -> RemoteAnswer:
    """The worker's answer, checked; anything else is an answer of kind "exit", so that another worker is asked."""
    try:
        if not isinstance(text, str):
            raise TypeError(f"{type(text).__name__} in place of JSON")
        answer = RemoteAnswer.model_validate_json(text)
        if answer.key != attempt.work.key or (answer.result is None) == (answer.failure is None and answer.foreign is None):
            raise ValueError("it answers another job")
    except (ValueError, TypeError) as error:
        words = f"a worker's answer cannot be read: {' '.join(str(error).split())[:200]}"
        return RemoteAnswer(key=attempt.work.key, worker="?", failure=("exit", words))
    return answer
