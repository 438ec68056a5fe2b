"""Compile and time jobs: from the study where it has them, else in the pool, stored when finished."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from lcplan.evidence.measurement import Compiled, Timed
from lcplan.formats.errors import BadInputError, StageFailedError
from lcplan.spec.hardware import HardwareSpec
from lcplan.strategy.attention_kernel import AttentionKernel, attention_kernel, shortest_chunk
from planner.measure.targets.at_hand import devices_at_hand, gpu_names
from planner.measure.targets.target import Target, one_device, target_for, target_verdict
from planner.measure.targets.toolchain import Toolchain
from planner.measure.workers.job import CompileJob, Program, Purpose, WorkerJob, job_key, resolve
from planner.measure.workers.pool import Outcome, PoolLimits, Task, run_tasks
from planner.measure.workers.process import PERMANENT, Launch
from planner.measure.workers.stderr_lines import warnings_in

Result = TypeVar("Result", Compiled, Timed)


class ResultStore(Protocol):
    """A store of finished results by key; a study is one. ``served`` holds the jobs that it answered."""

    served: set[CompileJob]

    def get(self, key: str) -> dict[str, Any] | None:
        """The stored result."""

    def put(self, key: str, *, rung: str, strategy: dict[str, Any], result: dict[str, Any]) -> None:
        """Store a finished result at once and whole."""


def compile_jobs(
    jobs: Sequence[CompileJob], *, toolchain: Toolchain, pool: PoolLimits, store: ResultStore | None
) -> Iterator[tuple[CompileJob, Compiled]]:
    """Compile each job's step for its hardware; stored results first, then the rest as they finish.

    A failed compile is a ``Compiled`` with its ``error``. ``fits`` is left open: the budget is no part of a job. Closing the
    iterator ends the workers; the rows that were yielded are stored.

    Raises
    ------
    StageFailedError
        The toolchain cannot compile at all, not even for host devices.
    """
    _can_compile(toolchain)
    work: list[Work] = []
    for job in jobs:
        try:
            work.append(Work(job, "compile", toolchain=toolchain))
        except BadInputError as error:
            yield job, _untried(job, str(error), toolchain=toolchain)
    yield from _run(work, Compiled, limits=pool, store=store)


def time_jobs(
    jobs: Sequence[CompileJob], *, toolchain: Toolchain, pool: PoolLimits, store: ResultStore | None
) -> Generator[tuple[CompileJob, Timed]]:
    """Time each job's whole step on the devices at hand, one job at a time: jobs that share devices would time each other.

    Raises
    ------
    StageFailedError
        The toolchain cannot run the step, or the hardware is not at hand.
    """
    _can_compile(toolchain)
    if not isinstance(store, SharedStore) or pool.jobs:
        _are_at_hand(jobs)
    work = [Work(job, "time", toolchain=toolchain) for job in jobs]
    yield from _run(work, Timed, limits=replace(pool, jobs=min(pool.jobs, 1)), store=store)


def time_slices(
    jobs: Sequence[CompileJob], *, toolchain: Toolchain, pool: PoolLimits, store: ResultStore | None
) -> Generator[tuple[CompileJob, Timed]]:
    """Time one rank of each job's step on one device at hand, one job at a time; communication is not in it.

    Raises
    ------
    StageFailedError
        The toolchain cannot run the step on such a device.
    """
    _can_compile(toolchain)
    for job in jobs:
        check_slice(job.hardware, toolchain)
    work = [Work(job, "slice", toolchain=toolchain) for job in jobs]
    yield from _run(work, Timed, limits=replace(pool, jobs=min(pool.jobs, 1)), store=store)


def check_slice(hardware: HardwareSpec, toolchain: Toolchain) -> None:
    """Check that this machine may have a device of the hardware's kind, and that the toolchain can use it.

    Raises
    ------
    StageFailedError
        The one or the other is not so.
    """
    verdict = target_verdict(hardware, toolchain)
    if verdict is True and hardware.kind == "gpu" and not gpu_names():
        verdict = "the driver lists no GPU here"
    if verdict is not True:
        raise StageFailedError(f"{hardware.name}: a slice runs on a device of its kind: {verdict}")


def _can_compile(toolchain: Toolchain) -> None:
    verdict = toolchain.targets.get("cpu")
    if verdict is not True:
        raise StageFailedError(f"toolchain {toolchain.python} cannot compile: {verdict}")


def _are_at_hand(jobs: Sequence[CompileJob]) -> None:
    needs = [(job, devices_at_hand(job.hardware)) for job in jobs]
    problems = {
        f"{job.hardware.name}: a step on {job.strategy.devices} devices cannot be timed, {found} of them are here"
        for job, found in needs
        if job.strategy.devices > found
    }
    if problems:
        raise StageFailedError(f"{'; '.join(sorted(problems)[:3])}; use --stages compiled, or workers that have them")


@runtime_checkable
class SharedStore(Protocol):
    """A store that others work off too: jobs are posted there, and come back as rows whoever did them."""

    def work_off(self, work: Sequence[Work], limits: PoolLimits) -> Generator[tuple[Work, Compiled | Timed]]:
        """A row for each job, as they come."""


class Work:
    """A job with its target, key and task under one toolchain."""

    def __init__(self, job: CompileJob, purpose: Purpose, *, toolchain: Toolchain) -> None:
        self.job, self.purpose, self.toolchain = job, purpose, toolchain
        target = target_for(job.strategy, job.hardware, toolchain=toolchain)
        if purpose == "time" and job.hardware.kind != "cpu" and target.platform == "cpu":
            raise BadInputError(f"toolchain {toolchain.python} cannot run a step on {job.hardware.name}: {target.note}")
        if purpose == "slice":
            target = one_device(target)
        self.target = target.model_copy(update={"at_hand": True}) if purpose == "time" else target
        kernel = kernel_for(job, self.target, toolchain=toolchain)
        self.resolved: WorkerJob = resolve(job, self.target, purpose=purpose, kernel=kernel)
        self.key = job_key(job, self.resolved, toolchain=toolchain)

    @property
    def task(self) -> Task:
        """The task for a worker process; its ``id`` is the job's key."""
        return self.task_with(None)

    def task_with(self, executables: Path | None) -> Task:
        """The same task; a timing reads the executable that the compile of its program wrote to ``executables``."""
        variables = self.target.environment
        if self.target.at_hand and self.target.platform == "cuda":
            pool = self.job.hardware.pool_ratio(self.job.strategy.mesh.communicators)
            variables["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{pool:.3f}"
        launch = Launch(worker_command(self.toolchain.python, self.job.program), tuple(sorted(variables.items())))
        request = {"id": self.key, "job": self.resolved.model_dump(mode="json")}
        if executables is not None and self._is_timed_as_compiled:
            request["executables"] = str(executables.absolute() / self._program_key)
        counted = self.target.at_hand and self.target.platform != "cpu"  # an allocator's peak is its process's: it only grows
        return Task(launch, request, fresh=counted)

    @property
    def _is_timed_as_compiled(self) -> bool:
        """Whether compile and timing have one executable: a host's have; for a GPU it is compiled without one."""
        return self.job.hardware.kind == "cpu" and self.purpose != "slice"

    @property
    def _program_key(self) -> str:
        """The key of the compile."""
        target = self.target.model_copy(update={"at_hand": False})
        compiled = self.resolved.model_copy(update={"purpose": "compile", "target": target})
        return job_key(self.job, compiled, toolchain=self.toolchain)


def worker_command(python: str, program: Program) -> tuple[str, ...]:
    """How a worker starts under ``python``."""
    boot = str(Path(__file__).parent / "workers" / "boot.py")
    return (python, boot, str(os.getpid()), *(f"{name}={folder}" for name, folder in program.folders.items()))


def kernel_for(job: CompileJob, target: Target, *, toolchain: Toolchain) -> AttentionKernel:
    """The attention kernel of a chunk for the target under the toolchain.

    ``lcplan.strategy.attention_kernel`` decides, as it does for the cost model. A toolchain without cuDNN runs blockwise
    attention, and so does a program that is compiled for host devices in place of its hardware's.
    """
    gpu = job.hardware.device.gpu
    kernel = attention_kernel(
        job.model,
        kind=target.kind,
        precision=job.workload.precision,
        shortest_chunk=shortest_chunk(job.workload.seq_len, job.strategy.mesh.context),
        capability=None if gpu is None else gpu.compute_capability,
        fused=job.hardware.fused_attention,
    )
    return "blockwise" if kernel == "cudnn" and "cudnn" not in toolchain.kernels else kernel


def _run(
    work: Sequence[Work], kind: type[Result], *, limits: PoolLimits, store: ResultStore | None
) -> Generator[tuple[CompileJob, Result]]:
    waiting: dict[str, list[Work]] = {}
    for one in work:
        kept = _kept(one, kind, store=store)
        if kept is not None:
            assert store is not None
            store.served.add(one.job)
            yield one.job, kept
        else:
            waiting.setdefault(one.key, []).append(one)
    if isinstance(store, SharedStore):
        for done, row in store.work_off([same[0] for same in waiting.values()], limits):
            yield from ((one.job, row) for one in waiting[done.key])
        return
    for outcome in run_tasks([same[0].task_with(limits.executables) for same in waiting.values()], limits):
        same = waiting[outcome.task.request["id"]]
        result = row_of(same[0], outcome)
        if store is not None and is_final(outcome):
            store.put(
                same[0].key,
                rung=result.rung,
                strategy=same[0].job.strategy.model_dump(mode="json"),
                result=result.model_dump(mode="json"),
            )
        for one in same:
            yield one.job, result  # type: ignore[misc]


def _kept(one: Work, kind: type[Result], *, store: ResultStore | None) -> Result | None:
    """The stored result; a row that this version cannot read counts as absent."""
    data = store.get(one.key) if store is not None else None
    if data is None:
        return None
    try:
        return kind.model_validate(data)
    except ValueError:
        return None


def row_of(one: Work, outcome: Outcome) -> Compiled | Timed:
    """A worker's outcome as the row that the search keeps."""
    return _compiled(one, outcome) if one.purpose == "compile" else _timed(one, outcome)


def is_final(outcome: Outcome) -> bool:
    """A result, or a failure that would happen again; others (a time-out, a kill) are tried again by the next search."""
    return outcome.failure is None or outcome.failure.kind in PERMANENT


def _compiled(one: Work, outcome: Outcome) -> Compiled:
    facts = dict(outcome.result or {})
    seconds = facts.pop("compile_s", outcome.seconds)
    note = (one.target.note,) if one.target.note else ()
    warnings = (*note, *facts.pop("warnings", ()), *warnings_in(outcome.stderr))
    return Compiled(
        rung=one.target.rung,
        target=one.target.name,
        jax=one.toolchain.jax or "",
        finished_at=_now(),
        compile_s=round(seconds, 3),
        warnings=warnings,
        error=outcome.failure.words if outcome.failure else None,
        **facts,
    )


def _untried(job: CompileJob, error: str, *, toolchain: Toolchain) -> Compiled:
    """A row for a strategy that no target can hold."""
    name = job.hardware.name
    return Compiled(
        rung="compiled:target", target=name, jax=toolchain.jax or "", finished_at=_now(), compile_s=0.0, error=error
    )


def _timed(one: Work, outcome: Outcome) -> Timed:
    facts = dict(outcome.result or {})
    return Timed(
        rung="timed:slice" if one.purpose == "slice" else "timed:full",
        device=facts.pop("device", one.target.name),
        jax=one.toolchain.jax or "",
        finished_at=_now(),
        error=outcome.failure.words if outcome.failure else facts.pop("error", None),
        **{key: value for key, value in facts.items() if key != "error"},
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
