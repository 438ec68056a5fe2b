"""Analysis: every strategy of a request, rejected or estimated, and the order in which fitting ones deserve a compile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cost_models.estimate import EstimateTable
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import CODES, StrategyTable
from lcplan.strategy import KNOBS
from planner.candidates.candidate import Candidate
from planner.request.request import SearchRequest
from planner.rules import KNOB_RULES, Rule
from planner.space.reject import Rejected
from planner.space.survivors import Costs, Fitting, Indices, alternatives, survivor_order
from planner.trainers import trainer
from planner.trainers.common.restrict import rules_for


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
        rows = np.flatnonzero(self.estimates.fits)
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

    def survivors(self) -> Iterator[Candidate]:
        """The strategies that fit, in the order in which they deserve a compile."""
        _, fitting = self.fitting
        for row in survivor_order(fitting):
            yield self._plan(row)

    def alternatives(self) -> Iterator[tuple[Candidate, tuple[str, ...]]]:
        """Plans that show the choice, best first, each with its reasons (``planner.space.survivors.alternatives``)."""
        _, fitting = self.fitting
        reasons: dict[int, list[str]] = {}
        for row, reason in alternatives(fitting):
            reasons.setdefault(int(fitting.plan(row)[0]), []).append(reason)
        for row in sorted(reasons, key=lambda one: -fitting.objective[one]):
            yield self._plan(row), tuple(reasons[row])

    def _plan(self, row: int) -> Candidate:
        """Row ``row`` of the fitting rows, with the step time of each backend of the same plan."""
        rows, fitting = self.fitting
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
        program=request.program,
        untimed_offload=request.untimed_offload,
    )


def knob_rules_of(request: SearchRequest) -> tuple[Rule, ...]:
    """The rules on knobs, and those of the trainer that the request is for."""
    own = rules_for(trainer(request.trainer), request.hardware, jax=request.trainer_jax) if request.trainer else ()
    return (*KNOB_RULES, *own)
