"""Analysis: every strategy of a request, rejected or estimated, and the order in which fitting ones deserve a compile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import numpy as np

from cost_models.estimate import EstimateTable
from cost_models.inputs.layout import Bools
from cost_models.inputs.program import STEP, Program
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import CODES, StrategyTable
from lcplan.strategy import KNOBS
from planner.candidates.candidate import Candidate
from planner.candidates.ties import NOISE_RATIO
from planner.request.request import SearchRequest
from planner.rules import KNOB_RULES, Rule
from planner.space.reject import Rejected
from planner.space.survivors import Costs, Fitting, Indices, alternatives, one_of_each_plan, survivor_order
from planner.trainers import trainer
from planner.trainers.common.restrict import rules_for

LEADERS = 2
"""Survivors in front of all others: the choice of the cost model, and the fastest strategy."""

NEAR_MISSES = 2
"""Plans over the budget by less than the half-width of their memory that a search compiles, where they would be faster."""


@dataclass(frozen=True)
class Space:
    """Every strategy of a request before it is priced."""

    rejected: Rejected
    table: StrategyTable
    """The strategies that break no rule."""


@dataclass(frozen=True)
class Analysis:
    """Every strategy of a request, rejected or estimated, and which of them fit."""

    setting: Setting
    objective: str
    rejected: Rejected
    table: StrategyTable
    """The strategies that were estimated."""
    estimates: EstimateTable
    asked: tuple[str, ...] = ()
    """Knobs of which the request names several values."""

    @classmethod
    def of(cls, request: SearchRequest, space: Space, estimates: EstimateTable) -> Analysis:
        """The strategies of ``space`` with their estimates."""
        return cls(setting_of(request), request.objective, space.rejected, space.table, estimates, several(request))

    @property
    def enumerated(self) -> int:
        """Strategies in the space: rejected and estimated."""
        return self.rejected.total + len(self.table)

    @property
    def over_budget(self) -> int:
        """Estimated strategies that do not fit."""
        return int(np.count_nonzero(~self.estimates.fits))

    def candidate(self, row: int) -> Candidate:
        """Row ``row`` of the estimated strategies."""
        return Candidate(strategy=self.table.strategy(row), estimate=self.estimates.row(row))

    def nearest_miss(self) -> Candidate | None:
        """The strategy least over budget; None where all fit or no strategy was estimated."""
        rows = np.flatnonzero(~self.estimates.fits)
        if not len(rows):
            return None
        need = (self.estimates.total_bytes + self.estimates.allowance_bytes)[rows]
        return self.candidate(int(rows[np.argmin(need)]))

    @cached_property
    def fitting(self) -> tuple[Indices, Fitting]:
        """The estimated rows that fit, and their columns."""
        return self._among(self.estimates.fits)

    @cached_property
    def near(self) -> tuple[Indices, Fitting]:
        """The estimated rows over the budget by less than the half-width of their memory, and their columns."""
        return self._among(self.estimates.may_fit(self.setting.budget_bytes) & ~self.estimates.fits)

    def _among(self, chosen: Bools) -> tuple[Indices, Fitting]:
        rows = np.flatnonzero(chosen)
        table = self.table.take(rows)
        step_s, devices = self.estimates.step_s[rows], table.devices.astype(np.float64)
        weight = devices if self.objective == "tokens_per_s_per_device" else 1.0
        costs = Costs(step_s=step_s, memory_bytes=self.estimates.total_bytes[rows], devices=devices)
        parts = {key: column[rows] * weight for key, column in self.estimates.time_s.items()}
        best = int(rows[np.argmin(step_s * weight)]) if len(rows) else 0
        ratio = self.estimates.row(best)["uncertainty"]["time_ratio"] if len(rows) else 0.0
        return rows, Fitting(table, 1.0 / (step_s * weight), costs, parts, ratio, self.asked)

    def fastest(self) -> Candidate | None:
        """The best strategy by objective, before ties are settled; None if nothing fits."""
        rows, fitting = self.fitting
        return self.candidate(int(rows[fitting.order[0]])) if len(rows) else None

    def survivors(self, *, compiling: bool = False) -> Iterator[Candidate]:
        """The strategies that fit, in the order in which they deserve a compile.

        ``compiling``: also strategies about which only the compiler can decide. Behind the first two come the ``NEAR_MISSES``
        best ones that would be faster than all that fit; where nothing fits, all near misses, the least memory first.
        """
        _, fitting = self.fitting
        ordered = (self._plan(row) for row in survivor_order(fitting))
        if compiling:
            yield from islice(ordered, LEADERS)
            yield from self._near_misses()
        yield from ordered

    def _near_misses(self) -> Iterator[Candidate]:
        (_, fitting), (_, near) = self.fitting, self.near
        if not len(fitting.objective):
            order = np.lexsort((-near.objective, near.costs.devices, near.costs.memory_bytes))
            yield from (self._plan(row, among=self.near) for row in one_of_each_plan(near, order))
            return
        least = float(fitting.objective.max()) * (1.0 + NOISE_RATIO)
        faster = near.order[near.objective[near.order] > least]
        rows = islice(one_of_each_plan(near, faster), NEAR_MISSES)
        yield from (self._plan(row, among=self.near) for row in rows)

    def alternatives(self) -> Iterator[tuple[Candidate, tuple[str, ...]]]:
        """Plans that show the choice, best first, each with its reasons (``planner.space.survivors.alternatives``)."""
        _, fitting = self.fitting
        reasons: dict[int, list[str]] = {}
        for row, reason in alternatives(fitting):
            reasons.setdefault(int(fitting.plan(row)[0]), []).append(reason)
        for row in sorted(reasons, key=lambda one: -fitting.objective[one]):
            yield self._plan(row), tuple(reasons[row])

    def _plan(self, row: int, *, among: tuple[Indices, Fitting] | None = None) -> Candidate:
        """Row ``row`` of the fitting rows or of ``among``, with the step time of each backend of the same plan."""
        rows, fitting = among or self.fitting
        plan = fitting.plan(row)
        steps: dict[str, float] = {}
        for one in plan:
            steps.setdefault(str(CODES["backend"][fitting.table.backend[one]]), float(fitting.costs.step_s[one]))
        return replace(self.candidate(int(rows[row])), backend_step_s=steps if len(steps) > 1 else {})


def several(request: SearchRequest) -> tuple[str, ...]:
    """Knobs of which the request names several values."""
    return tuple(name for name in KNOBS if len(getattr(request.filters, name) or ()) > 1)


def setting_of(request: SearchRequest) -> Setting:
    """The facts of a request that the cost model needs."""
    return Setting(
        model=request.model,
        hardware=request.hardware,
        workload=request.workload,
        budget_bytes=request.budget_bytes,
        program=_program_of(request),
        untimed_offload=request.untimed_offload,
    )


def _program_of(request: SearchRequest) -> Program:
    """The priced step: on AMD GPUs a trainer may have a fused attention of its own, which jax lacks there."""
    fused = request.trainer is not None and trainer(request.trainer).fused_on_amd
    if not fused or request.hardware.vendor != "amd" or request.program != STEP:
        return request.program
    return STEP.model_copy(update={"attention": "flash"})


def knob_rules_of(request: SearchRequest) -> tuple[Rule, ...]:
    """The rules on knobs, and those of the trainer that the request is for."""
    own = rules_for(trainer(request.trainer), request.hardware, jax=request.trainer_jax) if request.trainer else ()
    return (*KNOB_RULES, *own)
