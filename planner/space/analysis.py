"""Analysis: every strategy of a request, rejected or estimated, and the order in which fitting ones deserve a compile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cost_models.estimate import EstimateTable
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from planner.candidates.candidate import Candidate
from planner.request.request import SearchRequest
from planner.rules import KNOB_RULES, Rule
from planner.space.reject import Rejected
from planner.space.survivors import Costs, survivor_order
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

    @classmethod
    def of(cls, request: SearchRequest, space: Space, estimates: EstimateTable) -> Analysis:
        """The strategies of ``space`` with their estimates."""
        return cls(setting_of(request), request.objective, space.rejected, space.table, estimates)

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

    def survivors(self) -> Iterator[Candidate]:
        """The strategies that fit, in the order in which they deserve a compile."""
        rows = np.flatnonzero(self.estimates.fits)
        table = self.table.take(rows)
        step_s = self.estimates.step_s[rows]
        devices = table.devices.astype(np.float64)
        value = 1.0 / step_s / (devices if self.objective == "tokens_per_s_per_device" else 1.0)
        costs = Costs(step_s=step_s, memory_bytes=self.estimates.total_bytes[rows], devices=devices)
        for row in survivor_order(table, value, costs):
            yield self.candidate(int(rows[row]))


def setting_of(request: SearchRequest) -> Setting:
    """The facts of a request that the cost model needs."""
    return Setting(
        model=request.model,
        hardware=request.hardware,
        workload=request.workload,
        budget_bytes=request.budget_bytes,
        program=request.program,
    )


def knob_rules_of(request: SearchRequest) -> tuple[Rule, ...]:
    """The rules on knobs, and those of the trainer that the request is for."""
    own = rules_for(trainer(request.trainer), request.hardware, jax=request.trainer_jax) if request.trainer else ()
    return (*KNOB_RULES, *own)
