"""Why: the reasons why a strategy is not the winner, and the changes that would make it win."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lcplan.formats.units import format_bytes, format_seconds
from lcplan.strategy import Strategy, Value
from lcplan.strategy.remat import REMAT_POLICIES
from planner.candidates.candidate import Candidate
from planner.candidates.ranking import objective_value, ties
from planner.explain.break_even import BreakEven, break_evens
from planner.request.request import SearchRequest
from planner.space.analysis import setting_of
from planner.workloads.points import broken_rules
from planner.workloads.pricing import price

Reason = Literal["won", "failed", "rule", "memory", "time", "tie"]


@dataclass(frozen=True)
class Difference:
    """One term of two strategies; ``more`` is the second's excess over the first."""

    term: str
    first: float
    second: float

    @property
    def more(self) -> float:
        """Second less first."""
        return self.second - self.first


@dataclass(frozen=True)
class Verdict:
    """Why a strategy is not the winner. ``slower_ratio`` is its objective's loss, 0.1 for ten per cent."""

    candidate: Candidate
    reason: Reason
    says: tuple[str, ...]
    slower_ratio: float | None
    terms: tuple[Difference, ...]
    """Time terms against the winner, largest loss first."""
    ways: tuple[str, ...]
    """Changes to the strategy itself after which it fits or is faster."""
    break_evens: tuple[BreakEven, ...]


def verdict(request: SearchRequest, candidate: Candidate, *, winner: Candidate | None, deep: bool = True) -> Verdict:
    """Compare ``candidate`` with ``winner``: rules first, then failure, memory, time. ``deep``: also changes that help."""
    if winner is not None and candidate.strategy == winner.strategy:
        return Verdict(candidate, "won", (), 0.0, (), (), ())
    broken = broken_rules(setting_of(request), candidate.strategy)
    if broken:
        return Verdict(candidate, "rule", tuple(broken), None, (), (), ())
    terms = differences(winner, candidate, parts="time_s") if winner else ()
    slower = _slower(candidate, winner, objective=request.objective) if winner else None
    evens = break_evens(request, strategy=candidate.strategy, winner=winner.strategy) if winner and deep else ()
    if not candidate.usable or not candidate.best.fits:
        reason, says = _unfit(request, candidate)
        ways = fitting_variants(request, candidate) if deep else ()
        return Verdict(candidate, reason, (says,), slower, terms, ways, evens)
    alike = winner is not None and ties([winner, candidate], request.objective) == (candidate,)
    says = _slow(candidate, winner, terms=terms)
    if alike:
        says = f"{says}; fewer devices, less memory and fewer flags decide among plans that the model cannot distinguish"
    return Verdict(candidate, "tie" if alike else "time", (says,), slower, terms, (), evens)


def _unfit(request: SearchRequest, candidate: Candidate) -> tuple[Reason, str]:
    for name, evidence in (("compile", candidate.compiled), ("timing", candidate.timed)):
        if evidence is not None and evidence.error:
            return "failed", f"its {name} failed: {evidence.error}"
    best = candidate.best
    need = best.memory_bytes + candidate.estimate["allowance_bytes"]
    over = format_bytes(need - request.budget_bytes)
    return "memory", f"needs {format_bytes(need)} a device ({best.rung}), {over} over the budget"


def _slow(candidate: Candidate, winner: Candidate | None, *, terms: tuple[Difference, ...]) -> str:
    if winner is None:
        return "fits, and nothing was there to beat"
    lost = [term for term in terms if term.more > 0][:2]
    where = " and ".join(f"{term.term.replace('_', ' ')} (+{format_seconds(term.more)})" for term in lost)
    step = f"a step of {format_seconds(candidate.best.step_s)} against {format_seconds(winner.best.step_s)}"
    return f"{step}; it loses on {where}" if where else step


def _slower(candidate: Candidate, winner: Candidate, *, objective: str) -> float:
    ours, best = objective_value(candidate, objective), objective_value(winner, objective)
    return ours / best - 1 if objective == "step_s" else best / ours - 1


def differences(first: Candidate, second: Candidate, *, parts: str) -> tuple[Difference, ...]:
    """Terms of ``memory_bytes`` or ``time_s`` of two candidates, the second's largest excess first."""
    ours, theirs = first.estimate[parts], second.estimate[parts]
    names = [name for name in {**ours, **theirs} if name != "total"]
    found = [Difference(name, ours.get(name, 0.0), theirs.get(name, 0.0)) for name in names]
    return tuple(sorted((term for term in found if term.first or term.second), key=lambda term: -term.more))


def fitting_variants(request: SearchRequest, candidate: Candidate) -> tuple[str, ...]:
    """Single changes of knobs on the same mesh that make the strategy fit by the cost model, fastest first."""
    found: list[tuple[float, str]] = []
    for says, strategy in _variants(request, candidate.strategy):
        if broken_rules(setting_of(request), strategy):
            continue
        estimate = price(request, strategy).estimate
        if estimate["fits"]:
            found.append((estimate["step_s"], f"{says}: fits, step {format_seconds(estimate['step_s'])}"))
    return tuple(says for _, says in sorted(found))


def _variants(request: SearchRequest, strategy: Strategy) -> list[tuple[str, Strategy]]:
    if strategy.sampling is not None:
        return []
    share = request.workload.global_batch // strategy.mesh.batch_ranks
    changes: list[tuple[str, Value]] = [("remat", name) for name in REMAT_POLICIES if name != strategy.remat]
    changes += [("microbatches", share)] if share > strategy.microbatches else []
    changes += [(name, "bf16") for name in ("moments_dtype", "reduce_dtype") if strategy.knob(name) != "bf16"]
    return [(f"{name}={value}", strategy.with_knob(name, value)) for name, value in changes]
