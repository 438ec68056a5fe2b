"""Candidate: a strategy, what the laws say of it, what a compiler and a clock said, and the best of what is known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from lcplan.evidence.measurement import RUNGS, Compiled, Rung, Timed
from lcplan.strategy import Strategy
from planner.candidates.learning import Learnt


@dataclass(frozen=True)
class Best:
    """The highest rung's answer to the three questions that decide: how long, how much memory, does it fit."""

    rung: Rung
    step_s: float
    tokens_per_s: float
    memory_bytes: int
    fits: bool

    def to_json(self) -> dict[str, Any]:
        """As in DESIGN: ``best``."""
        return {
            "rung": self.rung,
            "step_s": self.step_s,
            "tokens_per_s": self.tokens_per_s,
            "memory_bytes": self.memory_bytes,
            "fits": self.fits,
        }


@dataclass(frozen=True)
class Candidate:
    """One strategy with its estimate (never touched after it is made) and the evidence gathered since."""

    strategy: Strategy
    estimate: dict[str, Any]
    compiled: Compiled | None = None
    timed: Timed | None = None
    learnt: Learnt | None = None
    """What this and other candidates' compiles and timings teach of its time."""

    @property
    def usable(self) -> bool:
        """Not known to fail: no compile or timing of it went wrong."""
        return not any(evidence is not None and evidence.error for evidence in (self.compiled, self.timed))

    @property
    def best(self) -> Best:
        """The best that is known. Compiled memory replaces modelled memory, timed seconds replace modelled seconds, which what
        was learnt rescales until then."""
        rung: Rung = "modelled"
        step_s, memory = self.estimate["step_s"], self.estimate["memory_bytes"]["total"]
        fits = bool(self.estimate["fits"])
        if self.compiled is not None and self.compiled.total_bytes is not None:
            rung, memory, fits = self.compiled.rung, self.compiled.total_bytes, bool(self.compiled.fits)
        if self.timed is not None and self.timed.step_s is not None:
            rung, step_s = max(rung, self.timed.rung, key=RUNGS.index), self.timed.step_s
        elif self.learnt is not None:
            step_s = self.learnt.step_s(self.estimate)
        tokens = self.estimate["tokens_per_s"] * self.estimate["step_s"]
        return Best(rung, step_s, tokens / step_s, int(memory), fits and self.usable)

    def with_compiled(self, compiled: Compiled, budget_bytes: int) -> Candidate:
        """The same candidate with a compile's result, held against the budget."""
        if compiled.total_bytes is None:
            return replace(self, compiled=compiled)
        fits = compiled.total_bytes + self.estimate["allowance_bytes"] <= budget_bytes
        return replace(self, compiled=compiled.model_copy(update={"fits": fits}))

    def with_timed(self, timed: Timed) -> Candidate:
        """The same candidate with a timing's result."""
        return replace(self, timed=timed)

    def to_json(self) -> dict[str, Any]:
        """As in DESIGN: ``CANDIDATE``."""
        strategy = {"devices": self.strategy.devices, **self.strategy.model_dump(mode="json")}
        return {
            "strategy": strategy,
            "estimate": self.estimate,
            "compiled": self.compiled.model_dump(mode="json") if self.compiled else None,
            "timed": self.timed.model_dump(mode="json") if self.timed else None,
            "learnt": self.learnt.to_json() if self.learnt else None,
            "best": self.best.to_json(),
        }


def objective_value(candidate: Candidate, objective: str) -> float:
    """The number that the objective makes large: tokens/s, tokens/s a device, or the negative step [s]."""
    best = candidate.best
    if objective == "step_s":
        return -best.step_s
    return best.tokens_per_s / (candidate.strategy.devices if objective == "tokens_per_s_per_device" else 1)


def rank(candidates: list[Candidate], objective: str) -> list[Candidate]:
    """Best first: those that fit by objective, then those that do not, failed compiles last.

    Timed candidates stand before those that are not: a clock's seconds and a law's are no fair race.
    """

    def key(candidate: Candidate) -> tuple[bool, bool, bool, float, int, int]:
        best = candidate.best
        value = objective_value(candidate, objective)
        return (
            not candidate.usable,
            not best.fits,
            candidate.timed is None,
            -value,
            candidate.strategy.devices,
            best.memory_bytes,
        )

    return sorted(candidates, key=key)
