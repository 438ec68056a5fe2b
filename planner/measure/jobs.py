"""Compile and time jobs: from the study where it has them, else in the pool, stored when finished."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from lcplan.evidence.measurement import Compiled, Timed
from lcplan.formats.errors import BadInputError, StageFailedError
from lcplan.spec.hardware import HardwareSpec
from planner.measure.engines.interface import Engine
from planner.measure.engines.local import Local
from planner.measure.outcome_rows import TimedRung, compiled_row, now, timed_row
from planner.measure.targets.at_hand import gpu_names
from planner.measure.targets.target import target_verdict
from planner.measure.targets.toolchain import Toolchain
from planner.measure.work import ProgramWork, Work
from planner.measure.workers.job import CompileJob
from planner.measure.workers.pool import Outcome, PoolLimits
from planner.measure.workers.process import PERMANENT

LOCAL = Local()
Result = TypeVar("Result", bound=Compiled | Timed)
W = TypeVar("W", bound=Work)


class ResultStore(Protocol):
    """A store of finished results by key; a study is one. ``served`` holds the jobs that it answered."""

    served: set[Hashable]

    def get(self, key: str) -> dict[str, Any] | None:
        """The stored result."""

    def put(self, key: str, *, rung: str, strategy: dict[str, Any], result: dict[str, Any]) -> None:
        """Store a finished result at once and whole."""


def compile_jobs(
    jobs: Sequence[CompileJob], *, toolchain: Toolchain, pool: PoolLimits, store: ResultStore | None, engine: Engine = LOCAL
) -> Iterator[tuple[CompileJob, Compiled]]:
    """Compile each job's step for its hardware; stored results first, then the rest as they finish.

    A failed compile is a ``Compiled`` with its ``error``. ``fits`` is left open: the budget is no part of a job. Closing the
    iterator ends the workers; the rows that were yielded are stored.

    Raises
    ------
    StageFailedError
        The toolchain cannot compile at all, not even for host devices.
    """
    check_toolchain(toolchain)
    work: list[ProgramWork] = []
    for job in jobs:
        try:
            work.append(ProgramWork(job, "compile", toolchain=toolchain))
        except BadInputError as error:
            yield job, _untried(job, str(error), toolchain=toolchain)
    with closing(run_work(work, Compiled, limits=pool, store=store, engine=engine)) as rows:
        yield from ((one.job, row) for one, row in rows)


def time_jobs(
    jobs: Sequence[CompileJob], *, toolchain: Toolchain, pool: PoolLimits, store: ResultStore | None, engine: Engine = LOCAL
) -> Generator[tuple[CompileJob, Timed]]:
    """Time each job's whole step on the devices at hand, one job at a time: jobs that share devices would time each other.

    Raises
    ------
    StageFailedError
        The toolchain cannot run the step, or the hardware is not at hand.
    """
    check_toolchain(toolchain)
    _are_at_hand(jobs, engine)
    work = [ProgramWork(job, "time", toolchain=toolchain) for job in jobs]
    with closing(run_work(work, Timed, limits=replace(pool, jobs=1), store=store, engine=engine)) as rows:
        yield from ((one.job, row) for one, row in rows)


def time_slices(
    jobs: Sequence[CompileJob], *, toolchain: Toolchain, pool: PoolLimits, store: ResultStore | None, engine: Engine = LOCAL
) -> Generator[tuple[CompileJob, Timed]]:
    """Time one rank of each job's step on one device at hand, one job at a time; communication is not in it.

    Raises
    ------
    StageFailedError
        The toolchain cannot run the step on such a device.
    """
    check_toolchain(toolchain)
    for job in jobs:
        check_slice(job.hardware, toolchain)
    work = [ProgramWork(job, "slice", toolchain=toolchain) for job in jobs]
    with closing(run_work(work, Timed, limits=replace(pool, jobs=1), store=store, engine=engine)) as rows:
        yield from ((one.job, row) for one, row in rows)


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


def check_toolchain(toolchain: Toolchain) -> None:
    """Check that a toolchain can compile at all.

    Raises
    ------
    StageFailedError
        It cannot, not even for host devices.
    """
    verdict = toolchain.targets.get("cpu")
    if verdict is not True:
        raise StageFailedError(f"toolchain {toolchain.python} cannot compile: {verdict}")


def _are_at_hand(jobs: Sequence[CompileJob], engine: Engine) -> None:
    needs = [(job, engine.devices(job.hardware)) for job in jobs]
    problems = {
        f"{job.hardware.name}: a step on {job.strategy.devices} devices cannot be timed, {found} of them are here"
        for job, found in needs
        if found is not None and job.strategy.devices > found
    }
    if problems:
        raise StageFailedError(
            f"{'; '.join(sorted(problems)[:3])}; use --stages compiled, or an --engine whose workers have them"
        )


def run_work(
    work: Sequence[W], kind: type[Result], *, limits: PoolLimits, store: ResultStore | None, engine: Engine = LOCAL
) -> Generator[tuple[W, Result]]:
    """Run work of one purpose: rows of ``kind`` from the store where it has them, the others as they finish."""
    waiting: dict[str, list[W]] = {}
    for one in work:
        kept = _kept(one, kind, store=store)
        if kept is not None:
            assert store is not None
            store.served.add(one.job)
            yield one, kept
        else:
            waiting.setdefault(one.key, []).append(one)
    if not waiting:
        return
    for done, outcome in engine.outcomes([same[0] for same in waiting.values()], limits):
        result = row_of(done, outcome)
        assert isinstance(result, kind), "a work makes rows of its own kind"
        if store is not None and is_final(outcome):
            store.put(
                done.key,
                rung=result.rung,
                strategy=done.job.strategy.model_dump(mode="json"),
                result=result.model_dump(mode="json"),
            )
        yield from ((twin, result) for twin in waiting[done.key])


def _kept(one: Work, kind: type[Result], *, store: ResultStore | None) -> Result | None:
    """The stored result; a row that this version cannot read counts as absent."""
    data = store.get(one.key) if store is not None else None
    if data is None:
        return None
    try:
        row: Result = kind.model_validate(data)  # type: ignore[assignment]
    except ValueError:
        return None
    return row


def row_of(one: Work, outcome: Outcome) -> Compiled | Timed:
    """A worker's outcome as the row that the search keeps."""
    return _compiled(one, outcome) if one.purpose == "compile" else _timed(one, outcome)


def is_final(outcome: Outcome) -> bool:
    """A result, or a failure that would happen again; others (a time-out, a kill) are tried again by the next search."""
    return outcome.failure is None or outcome.failure.kind in PERMANENT


def _compiled(one: Work, outcome: Outcome) -> Compiled:
    return compiled_row(outcome, target=one.target, toolchain=one.toolchain, kind=one.row)


def _untried(job: CompileJob, error: str, *, toolchain: Toolchain) -> Compiled:
    """A row for a strategy that no target can hold."""
    name = job.hardware.name
    return Compiled(rung="compiled:target", target=name, jax=toolchain.jax or "", finished_at=now(), compile_s=0.0, error=error)


def _timed(one: Work, outcome: Outcome) -> Timed:
    rung: TimedRung = "timed:slice" if one.purpose == "slice" else "timed:full"
    return timed_row(outcome, rung=rung, target=one.target, toolchain=one.toolchain)
