"""The analytic half of a search: space, rules, estimate, prune. No jax, no files, no printing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cost_models.estimate import EstimateTable, estimate
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable, default_columns
from lcplan.spec.rollout_workloads import RlWorkload
from lcplan.strategy import AXES
from planner.candidates.candidate import Candidate
from planner.request.request import SearchRequest
from planner.rules import KNOB_RULES, MESH_RULES, Rule
from planner.space.enumerate import Ints, Knobs, expand, mesh_sizes, points_of_each
from planner.space.reject import Rejected, screen
from planner.space.survivors import Costs, survivor_order
from planner.trainers import trainer
from planner.trainers.common.restrict import rules_for


@dataclass(frozen=True)
class Analysis:
    """Every strategy of a request, rejected or estimated, and which of them fit."""

    setting: Setting
    objective: str
    rejected: Rejected
    table: StrategyTable
    """The strategies that were estimated."""
    estimates: EstimateTable

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
        """Of the strategies over budget the one that is least over it; None where all fit or none was estimated."""
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
    """What the laws need to know of a request."""
    return Setting(
        model=request.model,
        hardware=request.hardware,
        workload=request.workload,
        budget_bytes=request.budget_bytes,
        program=request.program,
    )


def analyse(request: SearchRequest, backends: tuple[str, ...]) -> Analysis:
    """Enumerate, reject, estimate.

    Parameters
    ----------
    request
        The question.
    backends
        The collective backends that are real under the toolchain at hand.
    """
    if request.workload.kind == "sample":
        from planner.space.rollout_analysis import analyse_rollout  # it builds on this module

        return analyse_rollout(request, backends)
    if isinstance(request.workload, RlWorkload):
        from planner.space.rl_iteration import analyse_iteration  # it builds on this module

        return analyse_iteration(request, backends)
    setting = setting_of(request)
    knobs = Knobs.of(request.filters, backends, kind=request.hardware.kind)
    meshes = mesh_sizes(request)
    as_table = mesh_table(meshes)
    broken = screen(setting, MESH_RULES, as_table)
    points = expand(request, knobs, meshes[broken < 0])
    knob_rules = knob_rules_of(request)
    knob_broken = screen(setting, knob_rules, points)
    weights = points_of_each(request, knobs, meshes[broken >= 0])
    rejected = Rejected(
        rules=(*MESH_RULES, *knob_rules),
        table=StrategyTable.concatenate([as_table.take(broken >= 0), points.take(knob_broken >= 0)]),
        rule=np.concatenate([broken[broken >= 0], knob_broken[knob_broken >= 0] + len(MESH_RULES)]),
        weight=np.concatenate([weights, np.ones(int((knob_broken >= 0).sum()), dtype=np.int64)]),
    )
    table = points.take(knob_broken < 0)
    return Analysis(
        setting=setting, objective=request.objective, rejected=rejected, table=table, estimates=estimate(setting, table)
    )


def valid_points(request: SearchRequest, backends: tuple[str, ...], *, most_devices: int | None = None) -> StrategyTable:
    """Every strategy that breaks no rule, of at most ``most_devices`` devices; what the rules rejected is not kept."""
    if request.workload.kind == "sample":
        from planner.space.rollout_analysis import rollout_points  # it builds on this module

        return rollout_points(request, backends, most_devices=most_devices)
    if isinstance(request.workload, RlWorkload):
        from planner.space.rl_iteration import iteration_points  # it builds on this module

        return iteration_points(request, backends, most_devices=most_devices)
    setting, knobs = setting_of(request), Knobs.of(request.filters, backends, kind=request.hardware.kind)
    meshes = mesh_sizes(request, most_devices)
    points = expand(request, knobs, meshes[screen(setting, MESH_RULES, mesh_table(meshes)) < 0])
    return points.take(screen(setting, knob_rules_of(request), points) < 0)


def knob_rules_of(request: SearchRequest) -> tuple[Rule, ...]:
    """The rules on knobs, and those of the trainer that the request is for."""
    own = rules_for(trainer(request.trainer), request.hardware) if request.trainer else ()
    return (*KNOB_RULES, *own)


def mesh_table(meshes: Ints) -> StrategyTable:
    """Meshes as rows, with every knob at its default."""
    axes = {axis: meshes[:, index].astype(np.int64) for index, axis in enumerate(AXES)}
    return StrategyTable(**axes, **default_columns(len(meshes)))
