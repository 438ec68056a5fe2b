"""``--workload sample``: one rollout, its prefill and its decode steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cost_models.estimate import EstimateTable
from cost_models.inputs.layout import Floats
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.rollout.estimate import estimate_rollout, rollout_need_bytes
from cost_models.rollout.table import RolloutTable
from lcplan.formats.errors import BadInputError
from lcplan.strategy import AXES, KNOBS, Mesh, Sampling, Strategy
from planner.measure.workers.job import DECODE, PREFILL, CompileJob
from planner.request.filters import Filters, refuse_several
from planner.request.request import SearchRequest
from planner.request.request_changes import Ask
from planner.rules.rollout import ROLLOUT_RULES, layout_problems, layouts_of
from planner.space.analysis import Space, setting_of
from planner.space.meshes import keeping
from planner.space.reject import broken_rules_of
from planner.space.rollout_space import expand
from planner.space.shapes import Ints
from planner.workloads.interface import PlannedWorkload

_BATCH_RULES = frozenset({"batch", "decode-rows"})


class Rollout(PlannedWorkload[RolloutTable]):
    """A rollout: meshes of data, fsdp and tensor, each with its parameter and cache layouts."""

    mesh_rules = ROLLOUT_RULES
    rules = ROLLOUT_RULES
    refused_questions = {"max-seq": "max-seq is asked of a train step; with --workload sample use sweep --vary generate=.."}
    foreign_changes = frozenset({"remat", "dtype", "loss-chunk", "sequence"})
    accumulates = False
    not_tuned = "the tuner changes knobs of a train step; leave it out, or plan a train step (--workload train)"
    not_sliced = (
        "prefill and decode have no program for one rank; use --time where all devices of the mesh are at hand, or --compile"
    )

    def points(
        self, request: SearchRequest, backends: tuple[str, ...], *, most_devices: int | None = None, least_devices: int = 1
    ) -> RolloutTable:
        """Every layout of each mesh that breaks no rule."""
        setting = setting_of(request)
        screened = keeping(request, setting, ROLLOUT_RULES, most_devices=most_devices, least_devices=least_devices)
        return expand(request.filters, backends, screened.meshes)

    def space(self, request: SearchRequest, backends: tuple[str, ...]) -> Space:
        """The same points; a rejected mesh counts as one strategy."""
        screened = keeping(request, setting_of(request), ROLLOUT_RULES, weigh=lambda shapes, splits: splits[0][shapes.ranks])
        return Space(screened.rejected, expand(request.filters, backends, screened.meshes))

    def table_of(self, strategies: Sequence[Strategy]) -> RolloutTable:
        """Strategies as columns, with their rollouts."""
        return RolloutTable.from_strategies(strategies)

    def price(self, setting: Setting, table: RolloutTable) -> EstimateTable:
        """The rollout's estimate."""
        return estimate_rollout(setting, table)

    def need_bytes(self, setting: Setting, table: RolloutTable) -> Floats:
        """The rollout's memory."""
        return rollout_need_bytes(setting, table)

    def need_on_meshes(self, setting: Setting, meshes: Ints, *, like: Strategy) -> tuple[StrategyTable, Floats]:
        """The layout of ``like`` on meshes that can have it, and the last possible layout on the others."""
        assert like.sampling is not None, "a strategy of a rollout"
        wanted, backend = like.sampling, (like.backend,)
        tables = []
        for mesh in meshes:
            fsdp, tensor = int(mesh[AXES.index("fsdp")]), int(mesh[AXES.index("tensor")])
            possible = layouts_of(fsdp, tensor)
            layout = wanted.parameters if wanted.parameters in possible else possible[-1]
            filters = Filters(parameters=(layout,), cache=(wanted.cache,), gather_dtype=(like.gather_dtype,), backend=backend)
            tables.append(expand(filters, backend, mesh[None, :]))
        table = RolloutTable.from_strategies([one.strategy(0) for one in tables])
        return table, rollout_need_bytes(setting, table)

    def resolve(self, request: SearchRequest, mesh: Mesh, *, backends: tuple[str, ...]) -> Strategy:
        """The layout that the filters name; by default each step gathers every layer and reads the whole cache."""
        filters = request.filters
        refuse_several(filters, KNOBS)
        default = layouts_of(mesh.fsdp, mesh.tensor)[-1]
        sampling = Sampling.model_validate(
            {"mesh": mesh, "parameters": (filters.parameters or (default,))[0], "cache": (filters.cache or ("whole",))[0]}
        )
        strategy = Strategy.model_validate(
            {
                "mesh": mesh,
                "backend": (filters.backend or backends)[0],
                "gather_dtype": (filters.gather_dtype or ("bf16",))[0],
                "sampling": sampling,
            }
        )
        broken = [*broken_rules_of(setting_of(request), strategy, rules=ROLLOUT_RULES), *layout_problems(sampling)]
        if broken:
            raise BadInputError(broken)
        return strategy

    def batches(self, ask: Ask) -> Iterator[tuple[int, StrategyTable]]:
        """Group the meshes by data x fsdp x tensor."""
        rules = tuple(rule for rule in ROLLOUT_RULES if rule.name not in _BATCH_RULES)
        meshes = keeping(ask.request, setting_of(ask.request), rules, most_devices=ask.most_devices).meshes
        units = meshes[:, [AXES.index(axis) for axis in ("data", "fsdp", "tensor")]].prod(axis=1)
        for unit in np.unique(units):
            yield int(unit), expand(ask.request.filters, ask.backends, meshes[units == unit])

    def batch_unit(self, strategy: Strategy) -> int:
        """Sequences so that each tensor rank of each data x fsdp rank has one row."""
        mesh = strategy.mesh
        return mesh.data * mesh.fsdp * mesh.tensor

    def programs(self, request: SearchRequest, strategy: Strategy) -> tuple[CompileJob, ...]:
        """Prefill, and a decode step that runs once per generated token.

        A rollout that gathers once has the loop over all tokens in one program, and its prefill takes the gathered copy, so
        that the shards stay in memory.
        """
        work, sampling = request.workload.sample, strategy.sampling
        assert work is not None, "a workload with a rollout"
        assert sampling is not None, "a strategy of a rollout"
        decode = CompileJob(
            model=request.model,
            hardware=request.hardware,
            workload=work,
            strategy=strategy,
            program=DECODE,
            calls=work.generate,
        )
        if sampling.parameters != "gathered-once":
            return decode.model_copy(update={"program": PREFILL, "calls": 1}), decode
        shards = self.price(setting_of(request), self.table_of([strategy])).row(0)["memory_bytes"]["params"]
        prefill = decode.model_copy(update={"program": PREFILL, "calls": 1, "resident_bytes": round(shards)})
        return prefill, decode.model_copy(update={"calls": 1})


ROLLOUT = Rollout()
