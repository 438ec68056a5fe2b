"""Search: the whole way from a request to the best candidate, stage by stage, losing nothing on the way."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

from planner.candidates.candidate import Candidate
from planner.candidates.learning import learn_from_timings
from planner.candidates.ranking import rank
from planner.request.request import SearchRequest, Stage
from planner.request.request_changes import Ask
from planner.run.device_use import device_use
from planner.run.measuring import Bench
from planner.run.pace import pace_notes
from planner.run.result import SearchResult, SpaceCounts
from planner.run.toolchain_offer import check_at_hand, offer
from planner.space.analysis import Analysis, setting_of
from planner.what_if.changes.smallest_change import changes_that_fit
from planner.workloads.registry import planned

ATTEMPTS_PER_SURVIVOR = 3
"""Compiles that may fail or not fit for each survivor before the search continues with the ones that do."""
TIMED_SHARE = 2
"""One in this many survivors is timed, the best first: successive halving, a timing costs a compile and several steps."""
TIMING_S = 60.0
"""No further timing begins after this long; the best candidate is timed in any case."""


class Watcher(Protocol):
    """An observer that is notified of a search's progress."""

    def stage(self, name: Stage, total: int) -> None:
        """A stage begins and has ``total`` jobs."""

    def finished(self, candidate: Candidate) -> None:
        """A compile or a timing of ``candidate`` is there."""


@dataclass(frozen=True)
class Effort:
    """How far to go and with how many."""

    stage: Stage
    survivors: int


def search(bench: Bench, effort: Effort, watcher: Watcher) -> SearchResult:
    """Answer the bench's request: the whole way from points to the choice, as far as ``effort`` asks.

    The kind of workload decides how its points are made, rejected and priced; everything after that is the same for all.
    """
    request, workload = bench.request, planned(bench.request)
    _check(bench, effort)
    offered = offer(bench.toolchain, request)

    space = workload.space(request, offered.backends)  # points, and the rules that reject some
    analysis = Analysis.of(request, space, workload.price(setting_of(request), space.table))  # estimate
    watcher.stage("modelled", len(space.table))
    candidates = _measured(
        analysis.survivors(compiling=effort.stage != "modelled"), effort, bench, watcher
    )  # prune, compile, time
    ranked = rank(candidates, request.objective)  # choose

    notes = (*request.warnings, *offered.notes, *bench.notes, *_timed_note(candidates), *_pace(request, ranked))
    result = _result(request, analysis, ranked, notes)
    ask = Ask(request, offered.backends, request.devices or request.hardware.devices)
    if result.winner is None:
        return replace(result, changes=tuple(changes_that_fit(ask)))
    return replace(result, device_use=device_use(analysis, result.winner, ask))


def _pace(request: SearchRequest, ranked: Sequence[Candidate]) -> tuple[str, ...]:
    """Note the pace of the trainer that the search is for."""
    if request.trainer is None:
        return ()
    return pace_notes(request, name=request.trainer, step_s=ranked[0].best.step_s if ranked else None)


def _check(bench: Bench, effort: Effort) -> None:
    """Refuse stages that cannot run before any work is done."""
    if effort.stage != "modelled":
        bench.check()
    if effort.stage == "timed":
        check_at_hand(bench.request, bench.engine)


def _measured(order: Iterator[Candidate], effort: Effort, bench: Bench, watcher: Watcher) -> list[Candidate]:
    """The first candidates of ``order`` with the evidence that ``effort`` asks for."""
    if effort.stage == "modelled":
        return list(islice(order, effort.survivors))
    compiled = list(_compiled(order, effort.survivors, bench, watcher))
    return _timed(compiled, bench, watcher) if effort.stage == "timed" else compiled


def _compiled(order: Iterator[Candidate], wanted: int, bench: Bench, watcher: Watcher) -> Iterator[Candidate]:
    """Compile in order of promise until ``wanted`` candidates fit; failed and non-fitting ones are kept as rows."""
    watcher.stage("compiled", wanted)
    fitting, tried = 0, 0
    while fitting < wanted:
        batch = list(islice(order, min(wanted - fitting, wanted * ATTEMPTS_PER_SURVIVOR - tried)))
        if not batch:
            return
        tried += len(batch)
        for candidate in bench.compile(batch):
            fitting += candidate.best.fits
            watcher.finished(candidate)
            yield candidate


def _timed(candidates: list[Candidate], bench: Bench, watcher: Watcher) -> list[Candidate]:
    """Time the better half of the fitting candidates, best first; the next replaces a failed one. The rest stays as it is."""
    fitting = [candidate for candidate in rank(candidates, bench.request.objective) if candidate.best.fits]
    wanted = -(-len(fitting) // TIMED_SHARE)
    watcher.stage("timed", wanted)
    timed: list[Candidate] = []
    begun = time.monotonic()
    with closing(bench.time(fitting)) as timings:
        for candidate in timings:
            watcher.finished(candidate)
            timed.append(candidate)
            good = sum(candidate.usable for candidate in timed)
            if good >= wanted or (good and time.monotonic() - begun > TIMING_S):
                break
    done = {candidate.strategy for candidate in timed}
    return learn_from_timings([*timed, *(candidate for candidate in candidates if candidate.strategy not in done)])


def _timed_note(candidates: list[Candidate]) -> tuple[str, ...]:
    """Note how many of the fitting candidates were timed, where it is not all of them."""
    fitting = [candidate for candidate in candidates if candidate.best.fits]
    timed = sum(candidate.timed is not None for candidate in fitting)
    if timed in (0, len(fitting)):
        return ()
    return (f"{timed} of {len(fitting)} survivors were timed, the best by estimate first; the others are ranked below them",)


def _result(request: SearchRequest, analysis: Analysis, candidates: list[Candidate], notes: tuple[str, ...]) -> SearchResult:
    counts = SpaceCounts(
        enumerated=analysis.enumerated,
        rejected=dict(analysis.rejected.counts),
        over_budget=analysis.over_budget,
        estimated=len(analysis.table),
        survivors=sum(candidate.best.fits for candidate in candidates),
    )
    return SearchResult(
        request=request,
        counts=counts,
        candidates=tuple(candidates),
        nearest_miss=analysis.nearest_miss(),
        reasons={name: analysis.rejected.example(analysis.setting, name) for name in counts.rejected},
        notes=notes,
        alternatives=tuple(analysis.alternatives()),
    )
