"""Search: the whole way from a request to the best candidate, stage by stage, losing nothing on the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from lcplan.measurement import Compiled, Timed
from planner.analyse import Analysis, analyse
from planner.candidate import Candidate, rank
from planner.measure import CompileJob, PoolLimits, Toolchain, compile_jobs, time_jobs
from planner.request import SearchRequest, Stage
from planner.result import SearchResult, SpaceCounts
from planner.study import Store

ATTEMPTS_PER_SURVIVOR = 3
"""Compiles that may fail or not fit for each survivor before the search goes on with what it has."""


class Watcher(Protocol):
    """Who is told how a search goes."""

    def stage(self, name: str, total: int) -> None:
        """A stage begins and has ``total`` jobs."""

    def finished(self, candidate: Candidate, *, cached: bool) -> None:
        """A compile or a timing of ``candidate`` is there."""


@dataclass(frozen=True)
class Effort:
    """How much to do, as against what was asked."""

    stage: Stage
    survivors: int
    toolchain: Toolchain
    limits: PoolLimits


def search(request: SearchRequest, effort: Effort, *, store: Store | None, watcher: Watcher) -> SearchResult:
    """Enumerate, reject, estimate, prune; then compile and time the survivors as far as ``effort`` asks.

    ``store`` holds finished compiles and timings and may be None only at stage ``modelled``.
    """
    backends, backend_notes = effort.toolchain.real_backends(request.hardware)
    analysis = analyse(request, backends)
    watcher.stage("modelled", len(analysis.table))
    notes = list(request.warnings) + list(backend_notes)
    if effort.stage == "modelled" or store is None:
        candidates = list(islice(analysis.survivors(), effort.survivors))
    else:
        candidates = _compile(analysis, request, effort, store, watcher)
        if effort.stage == "timed":
            candidates = _time(candidates, request, effort, store, watcher)
    return _result(request, analysis, rank(candidates, request.objective), notes)


def _compile(analysis: Analysis, request: SearchRequest, effort: Effort, store: Store, watcher: Watcher) -> list[Candidate]:
    """Compile in order of promise until ``survivors`` of them fit; what failed or does not fit is kept beside them."""
    order = analysis.survivors()
    done: list[Candidate] = []
    watcher.stage("compiled", effort.survivors)
    while (missing := effort.survivors - sum(c.best.fits for c in done)) > 0:
        room = effort.survivors * ATTEMPTS_PER_SURVIVOR - len(done)
        batch = list(islice(order, min(missing, room)))
        if not batch:
            break
        done.extend(_compile_batch(batch, request, effort, store, watcher))
    return done


def _compile_batch(
    batch: list[Candidate], request: SearchRequest, effort: Effort, store: Store, watcher: Watcher
) -> Iterator[Candidate]:
    jobs = {_job(candidate, request): candidate for candidate in batch}
    for job, compiled in compile_jobs(list(jobs), toolchain=effort.toolchain, pool=effort.limits, store=store):
        candidate = jobs[job].with_compiled(_checked(jobs[job], compiled), request.budget_bytes)
        watcher.finished(candidate, cached=job in store.served)
        yield candidate


def _job(candidate: Candidate, request: SearchRequest) -> CompileJob:
    return CompileJob(model=request.model, hardware=request.hardware, workload=request.workload, strategy=candidate.strategy)


def _checked(candidate: Candidate, compiled: Compiled) -> Compiled:
    """Add what the executable contradicts: a backend that the flag did not get."""
    wanted = candidate.strategy.backend
    permutes = [use for use in compiled.collectives if use.op == "collective-permute"]
    astray = sorted({use.backend or "?" for use in permutes if use.backend != wanted})
    if not astray or compiled.error:
        return compiled
    warning = f"backend={wanted} was asked for, but collective-permutes go by {', '.join(astray)} in the executable"
    return compiled.model_copy(update={"warnings": (*compiled.warnings, warning)})


def _time(
    candidates: list[Candidate], request: SearchRequest, effort: Effort, store: Store, watcher: Watcher
) -> list[Candidate]:
    fitting = [c for c in rank(candidates, request.objective) if c.best.fits]
    jobs = {_job(candidate, request): candidate for candidate in fitting}
    watcher.stage("timed", len(jobs))
    timed: dict[CompileJob, Timed] = {}
    for job, result in time_jobs(list(jobs), toolchain=effort.toolchain, pool=effort.limits, store=store):
        timed[job] = result
        watcher.finished(jobs[job].with_timed(result), cached=job in store.served)
    by_strategy = {job.strategy: result for job, result in timed.items()}
    return [c.with_timed(by_strategy[c.strategy]) if c.strategy in by_strategy else c for c in candidates]


def _result(request: SearchRequest, analysis: Analysis, candidates: list[Candidate], notes: list[str]) -> SearchResult:
    counts = SpaceCounts(
        enumerated=analysis.enumerated,
        rejected=analysis.rejected.counts,
        over_budget=analysis.over_budget,
        estimated=len(analysis.table),
        survivors=sum(c.best.fits for c in candidates),
    )
    return SearchResult(
        request=request,
        counts=counts,
        candidates=tuple(candidates),
        nearest_miss=analysis.nearest_miss(),
        reasons={name: analysis.rejected.example(analysis.setting, name) for name in counts.rejected},
        notes=tuple(notes),
    )


def measure_one(
    candidate: Candidate, request: SearchRequest, *, toolchain: Toolchain, limits: PoolLimits, time: bool
) -> Candidate:
    """Compile one candidate, and time it where asked; nothing is kept in a study."""
    job = _job(candidate, request)
    for _, compiled in compile_jobs([job], toolchain=toolchain, pool=limits, store=None):
        candidate = candidate.with_compiled(_checked(candidate, compiled), request.budget_bytes)
    if time:
        for _, timed in time_jobs([job], toolchain=toolchain, pool=limits, store=None):
            candidate = candidate.with_timed(timed)
    return candidate
