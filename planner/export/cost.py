"""Cost of a translation: the plan and the job as run, priced by one cost model, and the effect of each difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cost_models.inputs.program import STEP, Program
from lcplan.evidence.plan import Plan
from lcplan.strategy import Strategy
from planner.candidates.candidate import Candidate
from planner.request.request import SearchRequest
from planner.trainers import Difference, Job, Translation
from planner.trainers.common.programs import priced_as
from planner.workloads.pricing import price


@dataclass(frozen=True)
class Effect:
    """The effect of one difference on the planned strategy; None: the cost model does not price it."""

    difference: Difference
    step_s_change: float | None
    memory_bytes_change: int | None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document."""
        facts = self.difference.model_dump(mode="json", exclude={"field", "extra_bytes"})
        return facts | {"step_s_change": self.step_s_change, "memory_bytes_change": self.memory_bytes_change}


@dataclass(frozen=True)
class Cost:
    """The strategy as planned and as the trainer runs it."""

    planned: Candidate
    run: Candidate
    extra_bytes: int
    """Bytes per device of the trainer that the cost model does not price; they count towards the fit."""
    budget_bytes: int
    effects: tuple[Effect, ...]

    @property
    def step_ratio(self) -> float:
        """Step time as run over step time as planned."""
        return float(self.run.estimate["step_s"] / self.planned.estimate["step_s"])

    own: Candidate | None = None
    """Estimate of the trainer's own step, where the cost model has it; its memory decides whether the job as run fits."""

    @property
    def run_bytes(self) -> int:
        """Memory of the job as run: the trainer's own step, or lcplan's estimate plus the bytes counted by hand."""
        if self.own is not None:
            return int(self.own.estimate["memory_bytes"]["total"])
        return int(self.run.estimate["memory_bytes"]["total"]) + self.extra_bytes

    @property
    def fits(self) -> bool:
        """Whether the job as run fits the plan's budget, under the cost model."""
        return self.need_bytes <= self.budget_bytes

    @property
    def need_bytes(self) -> int:
        """Memory of the job as run on a device, with communicators and the allocator's pool."""
        return self.run_bytes + int((self.own or self.run).estimate["allowance_bytes"])

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {
            "as_planned": self.planned.to_json(),
            "as_run": {
                **self.run.to_json(),
                "extra_bytes": self.extra_bytes,
                "memory_bytes": self.run_bytes,
                "fits": self.fits,
            },
            "step_ratio": self.step_ratio,
            "differences": [effect.to_json() for effect in self.effects],
        }


def request_of(plan: Plan) -> SearchRequest:
    """The request behind a plan, as the pricing wants it."""
    asked = plan.request
    return SearchRequest(
        model=asked.model, hardware=asked.hardware, workload=asked.workload, budget_bytes=asked.budget_bytes
    )  # fmt: skip


def cost_of(plan: Plan, translation: Translation) -> Cost:
    """Price both, and every single difference."""
    request = request_of(plan)
    planned = price(request, plan.strategy)
    changed = request
    if any(difference.field == "workload" for difference in translation.differences):
        changed = request.model_copy(update={"workload": translation.job.workload})
    program = priced_as(translation.trainer.program, hardware=request.hardware, model=request.model)
    return Cost(
        planned=planned,
        run=price(changed, translation.job.strategy),
        own=price(changed.model_copy(update={"program": program}), translation.job.strategy) if program != STEP else None,
        extra_bytes=translation.extra_bytes,
        budget_bytes=plan.request.budget_bytes,
        effects=tuple(
            _effect(difference, planned, request=request, run=translation.job) for difference in translation.differences
        ),
    )


def _effect(difference: Difference, planned: Candidate, *, request: SearchRequest, run: Job) -> Effect:
    if difference.field is None:
        return Effect(difference, None, difference.extra_bytes or None)
    changed = planned.strategy
    if difference.field == "workload":
        request = request.model_copy(update={"workload": run.workload})
    else:
        fields = (difference.field, *difference.with_fields)
        changed = changed.model_copy(update={name: getattr(run.strategy, name) for name in fields})
    alone = price(request, changed).estimate
    step = float(alone["step_s"] - planned.estimate["step_s"])
    memory = int(alone["memory_bytes"]["total"] - planned.estimate["memory_bytes"]["total"])
    return Effect(difference, step, memory + difference.extra_bytes)


def fits_budget(plan: Plan, strategy: Strategy, *, program: Program = STEP) -> bool:
    """Decide whether a strategy fits the plan's budget, by the trainer's own step where the cost model has it."""
    request = request_of(plan)
    own = priced_as(program, hardware=request.hardware, model=request.model)
    return bool(price(request.model_copy(update={"program": own}), strategy).estimate["fits"])
