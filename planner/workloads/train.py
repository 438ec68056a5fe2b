"""``--workload train``: one train step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from cost_models.estimate import EstimateTable, estimate, least_step_seconds, need_bytes
from cost_models.inputs.layout import Floats
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.strategy import AXES, Mesh, Strategy
from planner.measure.workers.job import STEP, CompileJob
from planner.request.request import SearchRequest
from planner.request.request_changes import Ask
from planner.rules import ALL_RULES, MESH_RULES
from planner.space.analysis import Space, knob_rules_of, setting_of
from planner.space.bound import MOST_POINTS, cannot_win
from planner.space.count import strategies_of
from planner.space.enumerate import PLACED, Knobs, expand
from planner.space.meshes import Splits, keeping, mesh_table, weights
from planner.space.one_strategy import resolve_step
from planner.space.reject import Tally, screen
from planner.space.shapes import Ints, Shapes
from planner.workloads.interface import PlannedWorkload


class TrainStep(PlannedWorkload[StrategyTable]):
    """A train step: every mesh and knob, with the rules of the trainer that the request is for."""

    mesh_rules = MESH_RULES
    rules = ALL_RULES

    def points(
        self, request: SearchRequest, backends: tuple[str, ...], *, most_devices: int | None = None, least_devices: int = 1
    ) -> StrategyTable:
        """Every combination of mesh and knobs that breaks no rule."""
        setting, knobs = setting_of(request), Knobs.of(request.filters, backends, kind=request.hardware.kind)
        screened = keeping(request, setting, MESH_RULES, most_devices=most_devices, least_devices=least_devices)
        points = expand(request, knobs, screened.meshes)
        return points.take(screen(setting, knob_rules_of(request), points) < 0)

    def space(self, request: SearchRequest, backends: tuple[str, ...]) -> Space:
        """The same points; a rejected mesh counts with all the knobs that it could have had."""
        setting, knobs = setting_of(request), Knobs.of(request.filters, backends, kind=request.hardware.kind)

        def weigh(shapes: Shapes, splits: Splits) -> Ints:
            return strategies_of(request, knobs, shapes, splits=splits)

        screened, rules = keeping(request, setting, MESH_RULES, weigh=weigh), knob_rules_of(request)
        counts = weights(weigh, screened.meshes)
        slow = cannot_win(request, setting, screened.meshes, knobs=knobs, rules=rules) if counts.sum() > MOST_POINTS else None
        if slow is not None:
            screened = screened.without(slow, setting, counts)
        points, tally = expand(request, knobs, screened.meshes), Tally(rules)
        broken = screen(setting, rules, points)
        tally.add(broken, points)
        return Space(screened.rejected.then(tally.result()), points.take(broken < 0))

    def table_of(self, strategies: Sequence[Strategy]) -> StrategyTable:
        """Strategies as columns."""
        return StrategyTable.from_strategies(strategies)

    def price(self, setting: Setting, table: StrategyTable) -> EstimateTable:
        """The train step's estimate."""
        return estimate(setting, table)

    def need_bytes(self, setting: Setting, table: StrategyTable) -> Floats:
        """The train step's memory."""
        return need_bytes(setting, table)

    def least_seconds(self, setting: Setting, devices: int) -> float:
        """The model's FLOPs at the rate of the fastest kernel; experts may drop rows, so that a mixture has no bound."""
        return 0.0 if setting.model.experts is not None else least_step_seconds(setting, devices)

    def need_on_meshes(self, setting: Setting, meshes: Ints, *, like: Strategy) -> tuple[StrategyTable, Floats]:
        """The knobs of ``like`` on other meshes."""
        knobs, table = StrategyTable.from_strategies([like]), mesh_table(meshes)
        same = {name: np.repeat(getattr(knobs, name), len(meshes)) for name in table.__dataclass_fields__ if name not in PLACED}
        table = replace(table, **same)
        return table, need_bytes(setting, table)

    def resolve(self, request: SearchRequest, mesh: Mesh, *, backends: tuple[str, ...]) -> Strategy:
        """The step that the filters name."""
        return resolve_step(request, mesh, backends=backends)

    def batches(self, ask: Ask) -> Iterator[tuple[int, StrategyTable]]:
        """Group the meshes by data x fsdp x microbatches."""
        for microbatches in ask.request.filters.microbatches:
            filters = ask.request.filters.model_copy(update={"microbatches": (microbatches,)})
            request = ask.request.model_copy(update={"filters": filters})
            for ranks, meshes in _by_ranks(request, ask.most_devices):
                unit = ranks * microbatches
                workload = request.workload.resized(global_batch=unit)
                at_unit = request.model_copy(update={"workload": workload})
                table = expand(at_unit, Knobs.of(filters, ask.backends, kind=request.hardware.kind), meshes)
                yield unit, table.take(screen(setting_of(at_unit), knob_rules_of(request), table) < 0)

    def batch_unit(self, strategy: Strategy) -> int:
        """Sequences so that each microbatch of each rank has one."""
        mesh = strategy.mesh
        return mesh.data * mesh.fsdp * mesh.expert * strategy.microbatches

    def programs(self, request: SearchRequest, strategy: Strategy) -> tuple[CompileJob, ...]:
        """The train step."""
        work = request.workload.train
        assert work is not None, "a workload with a train step"
        return (CompileJob(model=request.model, hardware=request.hardware, workload=work, strategy=strategy, program=STEP),)


def _by_ranks(request: SearchRequest, most_devices: int) -> Iterator[tuple[int, Ints]]:
    """Meshes that break no rule except the batch's, grouped by data x fsdp."""
    rules = tuple(rule for rule in MESH_RULES if rule.name != "batch")
    meshes = keeping(request, setting_of(request), rules, most_devices=most_devices).meshes
    ranks = meshes[:, AXES.index("data")] * meshes[:, AXES.index("fsdp")]
    for count in np.unique(ranks):
        yield int(count), meshes[ranks == count]


TRAIN_STEP = TrainStep()
