"""Bench: take candidates and return them with the compiler's or the clock's measurements."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

from lcplan.evidence.measurement import Compiled
from lcplan.formats.errors import BadInputError
from planner.candidates.candidate import Candidate
from planner.candidates.learning import learn_from_compile
from planner.measure.jobs import (
    ResultStore,
    SharedStore,
    check_slice,
    compile_jobs,
    time_jobs,
    time_slices,
)
from planner.measure.targets.toolchain import Toolchain
from planner.measure.workers.job import CompileJob
from planner.measure.workers.pool import PoolLimits
from planner.request.request import SearchRequest
from planner.run.timed_slice import whole_step
from planner.space.analysis import setting_of
from planner.workloads.registry import planned


@dataclass(frozen=True)
class Bench:
    """The bench that measures a request's candidates. ``store`` keeps every finished result; None keeps nothing."""

    request: SearchRequest
    toolchain: Toolchain
    limits: PoolLimits
    store: ResultStore | None = None

    @property
    def others_work(self) -> bool:
        """Whether everything is left to workers of a shared study, which may have other devices."""
        return isinstance(self.store, SharedStore) and self.limits.jobs == 0

    def check(self) -> None:
        """Check that the request's model can be compiled and timed at all.

        Raises
        ------
        BadInputError
            No step computes the model; the message names the parts.
        """
        model = self.request.model
        if model.not_built:
            raise BadInputError(
                f"{model.name} can be priced, but no step computes its {', '.join(model.not_built)}, so there is"
                " nothing to compile or to time; ask for --stages modelled, and leave --compile and --time out"
            )

    def check_slice(self) -> None:
        """Check that a rank can be timed here: the hardware's kind of device, and a toolchain for it."""
        check_slice(self.request.hardware, self.toolchain)

    def compile(self, candidates: Sequence[Candidate]) -> Iterator[Candidate]:
        """Yield each candidate with its compile, checked against the budget, as they finish; stored ones first."""
        by_strategy = {candidate.strategy: candidate for candidate in candidates}
        results = compile_jobs(self._jobs(candidates), toolchain=self.toolchain, pool=self.limits, store=self.store)
        for job, compiled in results:
            candidate = by_strategy[job.strategy]
            checked = candidate.with_compiled(_checked(candidate, compiled), self.request.budget_bytes)
            yield learn_from_compile(setting_of(self.request), checked)

    def time(self, candidates: Sequence[Candidate]) -> Generator[Candidate]:
        """Each candidate with its timing, as they finish; stored ones first."""
        by_strategy = {candidate.strategy: candidate for candidate in candidates}
        results = time_jobs(self._jobs(candidates), toolchain=self.toolchain, pool=self.limits, store=self.store)
        for job, timed in results:
            yield by_strategy[job.strategy].with_timed(timed)

    def time_slices(self, candidates: Sequence[Candidate]) -> Generator[Candidate]:
        """Each candidate with the timing of one rank of it, the modelled exposed communication added."""
        by_strategy = {candidate.strategy: candidate for candidate in candidates}
        results = time_slices(self._jobs(candidates), toolchain=self.toolchain, pool=self.limits, store=self.store)
        for job, timed in results:
            candidate = by_strategy[job.strategy]
            yield candidate.with_timed(whole_step(timed, candidate, self.request))

    def _jobs(self, candidates: Sequence[Candidate]) -> list[CompileJob]:
        self.check()
        workload = planned(self.request)
        return [job for candidate in candidates for job in workload.programs(self.request, candidate.strategy)]


def _checked(candidate: Candidate, compiled: Compiled) -> Compiled:
    """Add a warning where the executable contradicts the flag: a backend that was not used."""
    wanted = candidate.strategy.backend
    permutes = [use for use in compiled.collectives if use.op == "collective-permute"]
    astray = sorted({use.backend or "?" for use in permutes if use.backend != wanted})
    if not astray or compiled.error or compiled.rung == "compiled:host":
        return compiled
    warning = f"backend={wanted} was asked for, but collective-permutes go by {', '.join(astray)} in the executable"
    return compiled.model_copy(update={"warnings": (*compiled.warnings, warning)})
