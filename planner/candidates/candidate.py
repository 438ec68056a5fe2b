"""Candidate: a strategy, its estimate, its compile and timing, and the best evidence of the three."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lcplan.evidence.measurement import RUNGS, Compiled, Rung, Timed
from lcplan.strategy import Strategy
from planner.candidates.learning import Learnt


@dataclass(frozen=True)
class Best:
    """The answer of the highest evidence level to the three deciding questions: how long, how much memory, does it fit.

    ``step_s`` and ``memory_bytes`` may be off by their half-widths: between ``x / (1 + ratio)`` and ``x (1 + ratio)``.
    """

    rung: Rung
    step_s: float
    tokens_per_s: float
    memory_bytes: int
    fits: bool
    time_ratio: float = 0.0
    """Half-width of the step time: of published rows of its kind, or the spread of its own timing."""
    memory_ratio: float = 0.0
    """Half-width of the memory: of published rows of its kind; 0 where the target's own compiler stated it."""

    def to_json(self) -> dict[str, Any]:
        """Return the document ``best`` of DESIGN."""
        return {
            "rung": self.rung,
            "step_s": self.step_s,
            "step_s_low": self.step_s / (1.0 + self.time_ratio),
            "step_s_high": self.step_s * (1.0 + self.time_ratio),
            "tokens_per_s": self.tokens_per_s,
            "memory_bytes": self.memory_bytes,
            "memory_bytes_low": round(self.memory_bytes / (1.0 + self.memory_ratio)),
            "memory_bytes_high": round(self.memory_bytes * (1.0 + self.memory_ratio)),
            "fits": self.fits,
        }


@dataclass(frozen=True)
class Beyond:
    """Memory that the run of an imported file takes in addition to lcplan's own step, which a compile is of."""

    memory_bytes: int
    """Per device; negative where the trainer holds less."""
    against: str
    """Verdict against the file for another reason than the devices' memory, in words; empty without one."""
    compile_counts: bool
    """Whether memory compiled for the target replaces the modelled memory: otherwise the file has another step."""


@dataclass(frozen=True)
class Candidate:
    """One strategy with its estimate (never touched after it is made) and the evidence gathered since."""

    strategy: Strategy
    estimate: dict[str, Any]
    compiled: Compiled | None = None
    timed: Timed | None = None
    learnt: Learnt | None = None
    """Corrections of the candidate's time, learnt from its own and other candidates' compiles and timings."""
    beyond: Beyond | None = None
    """Further memory of an imported file's run, which the estimate has already; None: not of a file."""
    backend_step_s: Mapping[str, float] = field(default_factory=dict)
    """Modelled step time of the same plan on each backend, where there are several [s]."""

    @property
    def idle_devices(self) -> int:
        """Devices of its domains that the job leaves idle; 0 in estimates of earlier versions, which filled every domain."""
        return int(self.estimate.get("placement", {}).get("idle_devices", 0))

    @property
    def usable(self) -> bool:
        """Not known to fail: no compile or timing of it went wrong."""
        return not any(evidence is not None and evidence.error for evidence in (self.compiled, self.timed))

    @property
    def target_compile(self) -> Compiled | None:
        """The compile that shows the memory on the hardware; None for one that failed or was for host devices in its place.

        Host devices run other kernels in other layouts, so that their memory is no figure of the hardware's.
        """
        compiled = self.compiled
        if self.beyond is not None and not self.beyond.compile_counts:
            return None
        return None if compiled is None or compiled.total_bytes is None or compiled.rung == "compiled:host" else compiled

    @property
    def best(self) -> Best:
        """The best evidence. Memory compiled for the target replaces modelled memory. Timed seconds replace modelled seconds,
        which learnt corrections rescale until then."""
        rung: Rung = "modelled"
        step_s, memory = self.estimate["step_s"], self.estimate["memory_bytes"]["total"]
        fits = bool(self.estimate["fits"])
        unsure = self.estimate.get("uncertainty", {})
        time_ratio, memory_ratio = unsure.get("time_ratio", 0.0), unsure.get("memory_ratio", 0.0)
        compiled = self.target_compile
        if compiled is not None and compiled.total_bytes is not None:
            rung, memory, fits = compiled.rung, compiled.total_bytes + self._beyond_bytes, bool(compiled.fits)
            memory_ratio = 0.0
        if self.timed is not None and self.timed.step_s is not None:
            rung, step_s = max(rung, self.timed.rung, key=RUNGS.index), self.timed.step_s
            time_ratio = _spread(self.timed)
        elif self.learnt is not None:
            step_s = self.learnt.step_s(self.estimate)
        tokens = self.estimate["tokens_per_s"] * self.estimate["step_s"]
        return Best(rung, step_s, tokens / step_s, int(memory), fits and self.usable, time_ratio, memory_ratio)

    def with_compiled(self, compiled: Compiled, budget_bytes: int) -> Candidate:
        """The same candidate with a compile's result, compared with the budget unless it is of host devices."""
        if compiled.total_bytes is None or compiled.rung == "compiled:host":
            return replace(self, compiled=compiled)
        need = compiled.total_bytes + self._beyond_bytes + self.estimate["allowance_bytes"]
        fits = need <= budget_bytes and not (self.beyond and self.beyond.against)
        return replace(self, compiled=compiled.model_copy(update={"fits": fits}))

    @property
    def _beyond_bytes(self) -> int:
        return 0 if self.beyond is None else self.beyond.memory_bytes

    def with_timed(self, timed: Timed) -> Candidate:
        """The same candidate with a timing's result."""
        return replace(self, timed=timed)

    def to_json(self) -> dict[str, Any]:
        """Return the document ``CANDIDATE`` of DESIGN."""
        strategy = {"devices": self.strategy.devices, **self.strategy.model_dump(mode="json")}
        return {
            "strategy": strategy,
            "estimate": self.estimate,
            "compiled": self.compiled.model_dump(mode="json") if self.compiled else None,
            "timed": self.timed.model_dump(mode="json") if self.timed else None,
            "learnt": self.learnt.to_json() if self.learnt else None,
            "best": self.best.to_json(),
            "backend_step_s": dict(self.backend_step_s),
        }


def _spread(timed: Timed) -> float:
    """How far a timing's samples are from its step time, as a ratio."""
    assert timed.step_s is not None, "a timing with a result"
    samples = [seconds for seconds in timed.samples if seconds > 0]
    return max((max(seconds / timed.step_s, timed.step_s / seconds) - 1.0 for seconds in samples), default=0.0)
