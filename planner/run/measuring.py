"""Bench: take candidates and return them with the compiler's or the clock's measurements."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from lcplan.evidence.measurement import Compiled
from lcplan.formats.errors import BadInputError
from planner.candidates.candidate import Candidate
from planner.candidates.learning import learn_from_compile
from planner.measure.engines.interface import Engine
from planner.measure.jobs import (
    LOCAL,
    ResultStore,
    check_slice,
    compile_jobs,
    time_jobs,
    time_slices,
)
from planner.measure.programs import Result, combined_compile, combined_timing
from planner.measure.targets.toolchain import Toolchain
from planner.measure.workers.job import CompileJob
from planner.measure.workers.pool import PoolLimits
from planner.request.request import SearchRequest
from planner.run.timed_slice import whole_step
from planner.space.analysis import setting_of
from planner.workloads.registry import planned


@dataclass(frozen=True)
class Bench:
    """The bench that measures a request's candidates on ``engine``. ``store`` keeps every finished result, where given."""

    request: SearchRequest
    toolchain: Toolchain
    limits: PoolLimits
    store: ResultStore | None = None
    engine: Engine = LOCAL

    def check(self) -> None:
        """Check that the request's model can be compiled and timed at all.

        Raises
        ------
        BadInputError
            No step computes the model; the message names the parts.
        """
        parts = self.request.not_built
        if parts:
            raise BadInputError(
                f"{self.request.model.name} can be priced, but no step computes its {', '.join(parts)}, so there is"
                " nothing to compile or to time; ask for --stages modelled, and leave --compile and --time out"
            )

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the compiled program, where it is not lcplan's own step."""
        return ()

    def check_slice(self) -> None:
        """Check that one rank can be timed here: the workload, the hardware's kind of device, and a toolchain for it.

        Raises
        ------
        BadInputError
            The workload has no program for one rank.
        StageFailedError
            No such device or toolchain is at hand.
        """
        reason = planned(self.request).not_sliced
        if reason is not None:
            raise BadInputError(f"--slice with --workload {self.request.workload.kind}: {reason}")
        check_slice(self.request.hardware, self.toolchain)

    def compile(self, candidates: Sequence[Candidate]) -> Iterator[Candidate]:
        """Each candidate with the compile of its programs, checked against the budget, as they finish; stored ones first."""
        run = partial(compile_jobs, toolchain=self.toolchain, pool=self.limits, store=self.store, engine=self.engine)
        for candidate, results in self._complete(candidates, run):
            compiled = _checked(candidate, combined_compile(results))
            yield learn_from_compile(setting_of(self.request), candidate.with_compiled(compiled, self.request.budget_bytes))

    def time(self, candidates: Sequence[Candidate]) -> Generator[Candidate]:
        """Each candidate with the timing of its programs, as they finish; stored ones first."""
        run = partial(time_jobs, toolchain=self.toolchain, pool=self.limits, store=self.store, engine=self.engine)
        for candidate, results in self._complete(candidates, run):
            yield candidate.with_timed(combined_timing(results))

    def time_slices(self, candidates: Sequence[Candidate]) -> Generator[Candidate]:
        """Each candidate with the timing of one rank of its step, the modelled exposed communication added."""
        run = partial(time_slices, toolchain=self.toolchain, pool=self.limits, store=self.store, engine=self.engine)
        for candidate, results in self._complete(candidates, run):
            (timed,) = results.values()
            yield candidate.with_timed(whole_step(timed, candidate, self.request))

    def _complete(
        self, candidates: Sequence[Candidate], run: Callable[[Sequence[CompileJob]], Iterator[tuple[CompileJob, Result]]]
    ) -> Generator[tuple[Candidate, dict[CompileJob, Result]]]:
        """Each candidate once ``run`` has the results of all its programs, which other candidates may share."""
        self.check()
        workload = planned(self.request)
        waiting = [(candidate, workload.programs(self.request, candidate.strategy)) for candidate in candidates]
        jobs = list(dict.fromkeys(job for _, programs in waiting for job in programs))
        found: dict[CompileJob, Result] = {}
        results = run(jobs)
        try:
            for job, result in results:
                found[job] = result
                complete = [pair for pair in waiting if found.keys() >= set(pair[1])]
                waiting = [pair for pair in waiting if pair not in complete]
                yield from ((candidate, {program: found[program] for program in programs}) for candidate, programs in complete)
        finally:
            if isinstance(results, Generator):
                results.close()


def _checked(candidate: Candidate, compiled: Compiled) -> Compiled:
    """Add a warning where the executable contradicts the flag: a backend that was not used."""
    wanted = candidate.strategy.backend
    permutes = [use for use in compiled.collectives if use.op == "collective-permute"]
    astray = sorted({use.backend or "?" for use in permutes if use.backend != wanted})
    if not astray or compiled.error or compiled.rung == "compiled:host":
        return compiled
    warning = f"backend={wanted} was asked for, but collective-permutes go by {', '.join(astray)} in the executable"
    return compiled.model_copy(update={"warnings": (*compiled.warnings, warning)})
