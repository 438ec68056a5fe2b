"""One strategy of a step of one's own with its compile: memory, verdict, and an estimated time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from cost_models.executable.schedule import ExecutionTime, execution_time
from cost_models.executable.uncertainty import execution_half_width
from lcplan.evidence.execution import StepCompiled
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.own_step import StepStrategy


@dataclass(frozen=True)
class StepCandidate:
    """A strategy, its compile, and the figures that follow from it."""

    strategy: StepStrategy
    hardware: HardwareSpec
    budget_bytes: int
    tokens: float | None = None
    compiled: StepCompiled | None = None

    def with_compiled(self, compiled: StepCompiled) -> StepCandidate:
        """The same candidate with its compile, compared with the budget unless host devices replace the hardware's."""
        made = replace(self, compiled=compiled)
        if compiled.total_bytes is None or compiled.rung == "compiled:host":
            return made
        fits = compiled.total_bytes + made.allowance_bytes <= self.budget_bytes
        return replace(self, compiled=compiled.model_copy(update={"fits": fits}))

    @property
    def allowance_bytes(self) -> int:
        """Memory beyond the executable's own: the runtime's, and a communicator for each group of its collectives [bytes]."""
        allowance = self.hardware.allowance
        groups = {use.axis for use in self.compiled.collectives} if self.compiled is not None else set()
        return int(allowance.runtime_bytes.value + len(groups) * allowance.communicator_bytes.value)

    @property
    def usable(self) -> bool:
        """Whether its compile is there and did not fail."""
        return self.compiled is not None and self.compiled.error is None

    @property
    def fits(self) -> bool:
        """Whether the compiled memory with the allowance is in the budget."""
        return self.compiled is not None and bool(self.compiled.fits)

    @cached_property
    def time(self) -> ExecutionTime | None:
        """Time of a step, estimated from the executable."""
        execution = self.compiled.execution if self.compiled is not None else None
        return execution_time(execution, self.hardware, devices=self.strategy.devices) if execution is not None else None

    @property
    def step_s(self) -> float | None:
        """Estimated time of a step [s]."""
        return self.time.step_s if self.time is not None else None

    @property
    def time_ratio(self) -> float:
        """Half-width of the step time."""
        return execution_half_width(self.time.parts, self.hardware).ratio if self.time is not None else 0.0

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens per second of all devices."""
        return self.tokens / self.step_s if self.tokens and self.step_s else None

    def objective_value(self, objective: str) -> float:
        """The number that the objective maximizes; the negative step time where tokens are not known."""
        if self.step_s is None:
            return float("-inf")
        if objective == "step_s" or self.tokens_per_s is None:
            return -self.step_s
        return self.tokens_per_s / (self.strategy.devices if objective == "tokens_per_s_per_device" else 1)

    def to_json(self) -> dict[str, Any]:
        """Return the candidate's document: like a built-in step's, with the user's own axes and knobs."""
        strategy = {"devices": self.strategy.devices, **self.strategy.argument}
        compiled = None
        if self.compiled is not None:
            compiled = self.compiled.model_dump(mode="json", exclude={"execution", "programs", "inside"})
            compiled["unknown_kernels"] = dict(self.compiled.execution.unknown) if self.compiled.execution else {}
        return {"strategy": strategy, "estimate": self._estimate(), "compiled": compiled, "timed": None, "best": self._best()}

    def _estimate(self) -> dict[str, Any] | None:
        time, compiled = self.time, self.compiled
        if time is None or compiled is None or compiled.total_bytes is None:
            return None
        return {
            "source": "executable",
            "step_s": time.step_s,
            "tokens_per_s": self.tokens_per_s,
            "memory_bytes": {"total": compiled.total_bytes},
            "allowance_bytes": self.allowance_bytes,
            "fits": compiled.fits,
            "time_s": dict(time.parts),
            "collectives": [one.to_json() for one in time.messages],
        }

    def _best(self) -> dict[str, Any] | None:
        compiled, step_s = self.compiled, self.step_s
        if compiled is None or compiled.total_bytes is None or step_s is None:
            return None
        return {
            "rung": compiled.rung,
            "step_s": step_s,
            "step_s_low": step_s / (1.0 + self.time_ratio),
            "step_s_high": step_s * (1.0 + self.time_ratio),
            "tokens_per_s": self.tokens_per_s,
            "memory_bytes": compiled.total_bytes,
            "memory_bytes_low": compiled.total_bytes,
            "memory_bytes_high": compiled.total_bytes,
            "fits": self.fits,
        }


def rank_steps(candidates: list[StepCandidate], objective: str) -> list[StepCandidate]:
    """Sort best first: fitting candidates by objective, then the others, failed compiles last."""

    def key(one: StepCandidate) -> tuple[bool, bool, float, int]:
        memory = one.compiled.total_bytes if one.compiled is not None and one.compiled.total_bytes is not None else 0
        return not one.usable, not one.fits, -one.objective_value(objective), memory

    return sorted(candidates, key=key)
