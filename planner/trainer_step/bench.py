"""The bench that compiles the trainer's own step for each candidate of a search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import yaml

from lcplan.evidence.measurement import Compiled
from lcplan.formats.errors import BadInputError
from lcplan.strategy import Strategy
from planner.candidates.candidate import Candidate
from planner.export.run import export_plan
from planner.measure.jobs import check_toolchain, run_work
from planner.measure.outcome_rows import now
from planner.measure.trainer_step.job import TrainerJob, TrainerWork
from planner.run.make_plan import make_plan
from planner.run.measuring import Bench
from planner.trainers import trainer


@dataclass(frozen=True)
class TrainerBench(Bench):
    """A bench whose compiles are of the trainer's own step. ``toolchain`` is the Python that has the trainer."""

    trainer: str = "maxtext"

    def check(self) -> None:
        """Check nothing more: the trainer's export refuses a model that the trainer does not have."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the compiled program."""
        return (f"compiled memory is that of {self.program}; step times are the cost model's",)

    @property
    def program(self) -> str:
        """The compiled program, in words."""
        return f"{trainer(self.trainer).title}'s own step, under jax {self.toolchain.jax}"

    def compile(self, candidates: Sequence[Candidate]) -> Iterator[Candidate]:
        """Each candidate with the compile of the file that lcplan exports of it, as they finish; stored ones first."""
        waiting: dict[TrainerJob, list[Candidate]] = {}
        for candidate in candidates:
            try:
                job = self.job(self.settings(candidate), candidate.strategy)
                waiting.setdefault(job, []).append(candidate)
            except BadInputError as error:
                yield candidate.with_compiled(self._untried(str(error)), self.request.budget_bytes)
        for job, compiled in self.rows(list(waiting)):
            for candidate in waiting[job]:
                yield candidate.with_compiled(compiled, self.request.budget_bytes)

    def settings(self, candidate: Candidate) -> Mapping[str, Any]:
        """The keys and values of the candidate's exported file."""
        plan = make_plan(self.request, candidate, self.toolchain)
        export = export_plan(plan, self.trainer, jax=self.toolchain.jax or "")
        settings: dict[str, Any] = yaml.safe_load(export.files[trainer(self.trainer).file])
        return settings

    def job(self, settings: Mapping[str, Any], strategy: Strategy) -> TrainerJob:
        """The job of a configuration on the request's hardware."""
        hardware = self.request.hardware
        several = strategy.devices // hardware.domain_size if hardware.kind == "tpu" else 1
        return TrainerJob.model_validate(
            {
                "trainer": self.trainer,
                "version": self.toolchain.versions[trainer(self.trainer).package],
                "settings": dict(settings),
                "hardware": hardware,
                "strategy": strategy,
                "slices": max(1, several),
            }
        )

    def rows(self, jobs: Sequence[TrainerJob]) -> Iterator[tuple[TrainerJob, Compiled]]:
        """Each job with its compile, as they finish; stored ones first."""
        check_toolchain(self.toolchain)
        work: list[TrainerWork] = []
        for job in jobs:
            try:
                work.append(TrainerWork(job, toolchain=self.toolchain))
            except BadInputError as error:  # no target can hold it
                yield job, self._untried(str(error))
        with closing(run_work(work, Compiled, limits=self.limits, store=self.store, engine=self.engine)) as rows:
            for one, compiled in rows:
                yield one.job, compiled.model_copy(update={"step_of": trainer(self.trainer).title})

    def _untried(self, error: str) -> Compiled:
        name = self.request.hardware.name
        jax = self.toolchain.jax or ""
        title = trainer(self.trainer).title
        return Compiled(
            rung="compiled:target", target=name, jax=jax, finished_at=now(), compile_s=0.0, error=error, step_of=title
        )


def trainer_bench(bench: Bench, name: str) -> TrainerBench:
    """The bench of a request for the own step of a trainer, whose Python is its toolchain."""
    return TrainerBench(bench.request, bench.toolchain, bench.limits, bench.store, bench.engine, trainer=name)
