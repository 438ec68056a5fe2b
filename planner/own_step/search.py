"""Search over a step of one's own: compile the promising strategies, read memory and time from each executable, choose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Protocol

from lcplan.evidence.execution import StepCompiled
from lcplan.evidence.step_plan import KIND
from lcplan.formats.errors import BadInputError
from lcplan.spec.own_step import StepStrategy
from planner.measure.engines.interface import Engine
from planner.measure.jobs import LOCAL, ResultStore, check_toolchain, run_work
from planner.measure.outcome_rows import now
from planner.measure.step_file.file import StepFile
from planner.measure.step_file.job import StepJob, StepWork
from planner.measure.targets.target import target_verdict
from planner.measure.targets.toolchain import Toolchain
from planner.measure.workers.pool import PoolLimits
from planner.own_step.candidate import StepCandidate, rank_steps
from planner.own_step.order import Frontier
from planner.own_step.request import StepRequest
from planner.own_step.space import Declared, Points, enumerate_points
from planner.request.document import SCHEMA_VERSION

ATTEMPTS_PER_SURVIVOR = 3
"""Compiles that may fail or not fit for each survivor, as in a search over lcplan's own step."""


class StepWatcher(Protocol):
    """An observer of a search's progress."""

    def found(self, points: Points) -> None:
        """The strategies are enumerated."""

    def finished(self, candidate: StepCandidate) -> None:
        """A compile is there."""


@dataclass(frozen=True)
class StepBench:
    """Compiles candidates of a request. ``file`` is the step file as it was when the search began."""

    request: StepRequest
    file: StepFile
    toolchain: Toolchain
    limits: PoolLimits
    store: ResultStore | None = None
    engine: Engine = LOCAL
    flags: dict[str, str | bool] = field(default_factory=dict)

    def job(self, strategy: StepStrategy) -> StepJob:
        """The job of a strategy."""
        return StepJob(file=self.file, hardware=self.request.hardware, strategy=strategy, workload=self.request.workload)

    def compile(self, strategies: list[StepStrategy], declared: Declared) -> Iterator[StepCandidate]:
        """Candidates with their compiles, as they finish; stored ones first."""
        check_toolchain(self.toolchain)
        work: list[StepWork] = []
        for strategy in strategies:
            try:
                work.append(StepWork(self.job(strategy), toolchain=self.toolchain, flags=self.flags))
            except BadInputError as error:  # no target can hold it
                yield self.candidate(strategy, declared).with_compiled(self._untried(str(error)))
        with closing(run_work(work, StepCompiled, limits=self.limits, store=self.store, engine=self.engine)) as rows:
            for one, compiled in rows:
                yield self.candidate(one.job.strategy, declared).with_compiled(compiled)

    def candidate(self, strategy: StepStrategy, declared: Declared) -> StepCandidate:
        """A candidate without a compile."""
        request = self.request
        return StepCandidate(strategy, request.hardware, request.budget_bytes, declared.tokens_of(strategy))

    def _untried(self, error: str) -> StepCompiled:
        name = self.request.hardware.name
        return StepCompiled(
            rung="compiled:target", target=name, jax=self.toolchain.jax or "", finished_at=now(), compile_s=0.0, error=error
        )


@dataclass(frozen=True)
class StepResult:
    """``candidates`` best first, failed compiles last."""

    request: StepRequest
    digest: str
    points: Points
    candidates: tuple[StepCandidate, ...]
    left: int = 0
    """Strategies that were not compiled."""
    notes: tuple[str, ...] = ()

    @property
    def winner(self) -> StepCandidate | None:
        """The best candidate that fits."""
        return next((one for one in self.candidates if one.fits), None)

    @property
    def nearest_miss(self) -> StepCandidate | None:
        """The candidate that needs the least memory; None where one fits, or nothing was compiled."""
        tried = [one for one in self.candidates if one.compiled is not None and one.compiled.total_bytes is not None]
        if self.winner is not None or not tried:
            return None
        return min(tried, key=lambda one: (one.compiled.total_bytes or 0) + one.allowance_bytes if one.compiled else 0)

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``lcplan search --step``."""
        over = sum(one.usable and not one.fits for one in self.candidates)
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": KIND,
            "request": self.request.to_json() | {"step_digest": self.digest},
            "space": {
                "enumerated": self.points.enumerated,
                "rejected": self.points.rejected,
                "over_budget": over,
                "estimated": len(self.candidates),
                "survivors": sum(one.fits for one in self.candidates),
                "not_compiled": self.left,
            },
            "winner": self.winner.to_json() if self.winner else None,
            "candidates": [one.to_json() for one in self.candidates],
            "nearest_miss": self.nearest_miss.to_json() if self.nearest_miss else None,
            "rejected_examples": self.points.examples,
            "notes": list(self.notes),
        }


def search_steps(bench: StepBench, survivors: int, watcher: StepWatcher) -> StepResult:
    """Answer the request: enumerate, reject, compile until ``survivors`` strategies fit, rank.

    Raises
    ------
    BadInputError
        No strategy keeps the rules.
    """
    request, declared = bench.request, Declared.of(bench.request)
    points = enumerate_points(request, declared)
    watcher.found(points)
    if not points.allowed:
        rule, example = next(iter(points.examples.items()))
        raise BadInputError(
            f"{request.step}: every strategy breaks a rule of LCPLAN, {points.rejected[rule]:,} the rule {rule!r}: {example}"
        )
    frontier = Frontier(request.space, list(points.allowed))
    done = list(_compiled(bench, declared, frontier, survivors=survivors, watcher=watcher))
    ranked = rank_steps(done, request.objective)
    return StepResult(
        request, bench.file.digest, points, tuple(ranked), len(points.allowed) - len(done), notes_of(bench, ranked)
    )


def _compiled(
    bench: StepBench, declared: Declared, frontier: Frontier, *, survivors: int, watcher: StepWatcher
) -> Iterator[StepCandidate]:
    fitting, tried, failures = 0, 0, 0
    while fitting < survivors and tried < survivors * ATTEMPTS_PER_SURVIVOR:
        batch = frontier.take(min(survivors - fitting, survivors * ATTEMPTS_PER_SURVIVOR - tried))
        if not batch:
            return
        rows = []
        for candidate in bench.compile(batch, declared):
            watcher.finished(candidate)
            rows.append(candidate)
            yield candidate
        frontier.add(rows)
        fitting += sum(one.fits for one in rows)
        tried += len(rows)
        failures = failures + len(rows) if not any(one.usable for one in rows) else 0
        if failures >= survivors:  # it fails everywhere: the step, not the strategy, is at fault
            return


def notes_of(bench: StepBench, candidates: list[StepCandidate]) -> tuple[str, ...]:
    """Notes for the reader: kernels that the estimate does not cover, and findings about the step itself."""
    notes: dict[str, None] = {}
    verdict = target_verdict(bench.request.hardware, bench.toolchain)
    if bench.request.hardware.kind != "cpu" and verdict is not True:
        notes[
            f"{bench.request.hardware.device.name} cannot be compiled for here ({verdict}); compiles for host devices show that"
            " the step builds, and no memory of the hardware's: nothing is chosen"
        ] = None
    for candidate in candidates:
        compiled = candidate.compiled
        if compiled is None:
            continue
        notes |= dict.fromkeys(words for words in compiled.warnings if ".py:" in words)
        for name, count in (compiled.execution.unknown if compiled.execution else {}).items():
            notes[f"the executable does not state the work of {name}: its {count} kernels count as their memory traffic"] = None
    if candidates and candidates[0].tokens is None:
        notes['tokens per step are not known: give --seq and --global-batch, or "tokens" in LCPLAN; the fastest step wins'] = (
            None
        )
    return tuple(notes)
