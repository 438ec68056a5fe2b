"""``--workload rl``: an iteration of a rollout and a train step, one after the other on the same devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from cost_models.estimate import EstimateTable, estimate
from cost_models.inputs.layout import Floats
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.parts.memory import REFERENCE
from cost_models.rollout.iteration import RESIDENT, IterationTable, estimate_iteration
from cost_models.rollout.table import RolloutTable
from lcplan.formats.errors import BadInputError
from lcplan.spec.rollout_workloads import RlWorkload
from lcplan.strategy import AXES, Mesh, Sampling, Strategy
from planner.measure.workers.job import RESHARD as RESHARD_PROGRAM
from planner.measure.workers.job import SCORINGS, UPDATE, CompileJob
from planner.request.request import SearchRequest
from planner.request.request_changes import Ask
from planner.rules.rollout import ROLLOUT_RULES, layout_problems, layouts_of
from planner.space.analysis import Space, setting_of
from planner.space.one_strategy import named_mesh
from planner.space.reject import broken_rules_of
from planner.space.shapes import Ints
from planner.space.survivors import Costs, pareto_front
from planner.workloads.interface import PlannedWorkload
from planner.workloads.rollout import ROLLOUT
from planner.workloads.train import TRAIN_STEP


class Iteration(PlannedWorkload[IterationTable]):
    """Train strategies on the front of their mesh, each with every rollout that runs on the same devices."""

    mesh_rules = TRAIN_STEP.mesh_rules
    rules = TRAIN_STEP.rules
    refused_questions = {
        "max-seq": "max-seq is asked of a train step; with --workload rl use sweep --vary generate=..",
        "max-batch": "max-batch is asked of a train step or a rollout; with --workload rl use sweep --vary batch=..",
    }
    foreign_changes = ROLLOUT.foreign_changes
    not_tuned = ROLLOUT.not_tuned
    not_sliced = ROLLOUT.not_sliced

    def points(
        self, request: SearchRequest, backends: tuple[str, ...], *, most_devices: int | None = None, least_devices: int = 1
    ) -> IterationTable:
        """Every iteration whose train step and rollout break no rule."""
        trained = TRAIN_STEP.points(_train_request(request), backends, most_devices=most_devices, least_devices=least_devices)
        rollouts = ROLLOUT.points(_sample_request(request), backends, most_devices=most_devices, least_devices=least_devices)
        return _joined(request, trained, rollouts)

    def space(self, request: SearchRequest, backends: tuple[str, ...]) -> Space:
        """The same iterations; rejected strategies are counted for the train step only."""
        trained = TRAIN_STEP.space(_train_request(request), backends)
        rollouts = ROLLOUT.points(_sample_request(request), backends)
        return Space(trained.rejected, _joined(request, trained.table, rollouts))

    def table_of(self, strategies: Sequence[Strategy]) -> IterationTable:
        """Strategies as columns, with their rollouts."""
        return IterationTable.from_strategies(strategies)

    def price(self, setting: Setting, table: IterationTable) -> EstimateTable:
        """The estimate of the train step and of the rollout."""
        return estimate_iteration(setting, table)

    def need_bytes(self, setting: Setting, table: IterationTable) -> Floats:
        """Memory of the train step or of the rollout, whichever needs more."""
        priced = estimate_iteration(setting, table)
        return priced.total_bytes + priced.allowance_bytes

    def need_on_meshes(self, setting: Setting, meshes: Ints, *, like: Strategy) -> tuple[StrategyTable, Floats]:
        """The train step on other meshes."""
        return TRAIN_STEP.need_on_meshes(setting, meshes, like=like)

    def resolve(self, request: SearchRequest, mesh: Mesh, *, backends: tuple[str, ...]) -> Strategy:
        """The train step and the rollout that the filters name."""
        return _with_rollout(request, TRAIN_STEP.resolve(_train_request(request), mesh, backends=backends))

    def batches(self, ask: Ask) -> Iterator[tuple[int, StrategyTable]]:
        """Yield nothing: ``max-batch`` is refused."""
        yield from ()

    def batch_unit(self, strategy: Strategy) -> int:
        """The batch unit of the train step."""
        return TRAIN_STEP.batch_unit(strategy)

    def programs(self, request: SearchRequest, strategy: Strategy) -> tuple[CompileJob, ...]:
        """The move of the parameters, the rollout's programs, scorings, and the update, each with the state of the others."""
        work, table = _iteration(request), self.table_of([strategy])
        memory = self.price(setting_of(request), table).row(0)["memory_bytes"]
        in_place = bool(table.in_place[0])
        update = CompileJob(
            model=request.model,
            hardware=request.hardware,
            workload=work,
            strategy=strategy.model_copy(update={"sampling": None}),
            program=UPDATE,
            resident_bytes=memory[REFERENCE.key],
        )
        state = {name: memory[name] for name in RESIDENT}
        beside = round(sum(state.values()) - (state["params"] if in_place else 0))
        sampled = [
            job.model_copy(update={"resident_bytes": job.resident_bytes + beside})
            for job in ROLLOUT.programs(_sample_request(request), _rollout_of(strategy))
        ]
        resharding = update.model_copy(
            update={"strategy": strategy, "program": RESHARD_PROGRAM, "resident_bytes": beside - state["params"]}
        )
        moved = () if in_place else (resharding,)
        return (*moved, *sampled, *_scorings(work, update, state=state), update)


def _scorings(work: RlWorkload, update: CompileJob, *, state: Mapping[str, int]) -> Iterator[CompileJob]:
    """The forward passes over the sampled sequences; each takes one of the two sets of parameters, and the rest stays."""
    resident = {"old_log_probs": state["optimizer"] + state[REFERENCE.key]}
    resident["reference_log_probs"] = state["params"] + state["optimizer"]
    for name in work.scorings:
        yield update.model_copy(update={"program": SCORINGS[name], "resident_bytes": resident[name]})


def _iteration(request: SearchRequest) -> RlWorkload:
    """The workload of an iteration."""
    work = request.workload
    assert isinstance(work, RlWorkload), "a request of an iteration"
    return work


def _rollout_of(strategy: Strategy) -> Strategy:
    """The iteration's rollout as a strategy of its own, as ``--workload sample`` has it."""
    sampling = strategy.sampling
    assert sampling is not None, "a strategy of an iteration"
    alone = sampling.model_copy(update={"beside_training": False})
    knobs = {name: strategy.knob(name) for name in ("backend", "gather_dtype", "segment")}
    return Strategy.model_validate({"mesh": sampling.mesh, "sampling": alone} | knobs)


def _train_request(request: SearchRequest) -> SearchRequest:
    """The request of the iteration's train step."""
    work = request.workload.train
    assert work is not None, "a request of an iteration"
    return request.model_copy(update={"workload": work})


def _sample_request(request: SearchRequest) -> SearchRequest:
    """The request of the iteration's rollout, on any mesh: its mesh may differ from the train step's."""
    work = request.workload.sample
    assert work is not None, "a request of an iteration"
    filters = request.filters.model_copy(update={"mesh": request.filters.rollout_mesh, "rollout_mesh": {}})
    return request.model_copy(update={"workload": work, "filters": filters})


def _joined(request: SearchRequest, trained: StrategyTable, rollouts: RolloutTable) -> IterationTable:
    """Pareto-optimal train strategies of each mesh, each with every rollout on the same devices."""
    trained = trained.take(_fronts(request, trained))
    left, right = np.nonzero(trained.devices[:, None] == rollouts.devices[None, :])
    own = {name: getattr(trained, name)[left] for name in StrategyTable.__dataclass_fields__}
    added = set(RolloutTable.__dataclass_fields__) - set(StrategyTable.__dataclass_fields__)
    return IterationTable(**own, **{name: getattr(rollouts, name)[right] for name in added})


def _fronts(request: SearchRequest, trained: StrategyTable) -> np.ndarray:
    """Indices of the rows that no other row of the same mesh beats in both time and memory."""
    if not len(trained):
        return np.zeros(0, dtype=np.int64)
    priced = estimate(setting_of(_train_request(request)), trained)
    meshes = np.stack([getattr(trained, axis) for axis in AXES], axis=1)
    _, which = np.unique(meshes, axis=0, return_inverse=True)
    kept = []
    for mesh in range(int(which.max()) + 1):
        rows = np.flatnonzero(which.ravel() == mesh)
        costs = Costs(priced.step_s[rows], priced.total_bytes[rows], np.ones(len(rows)))
        kept.append(rows[pareto_front(costs)])
    return np.concatenate(kept)


def _with_rollout(request: SearchRequest, trained: Strategy) -> Strategy:
    """The train strategy with the rollout that the filters name.

    By default the trained shards are gathered once; a mesh without shards has whole matrices.

    Raises
    ------
    BadInputError
        The rollout cannot have that layout on this mesh.
    """
    filters = request.filters
    own = named_mesh(filters.rollout_mesh, option="--rollout-mesh") if filters.rollout_mesh else _rollout_mesh(request, trained)
    layout = (filters.parameters or layouts_of(own.fsdp, own.tensor))[0]
    sampling = Sampling.model_validate(
        {"mesh": own, "parameters": layout, "cache": (filters.cache or ("whole",))[0], "beside_training": True}
    )
    rollout = _rollout_of(trained.model_copy(update={"sampling": sampling}))
    problems = [
        *layout_problems(sampling),
        *broken_rules_of(setting_of(_sample_request(request)), rollout, rules=ROLLOUT_RULES),
    ]
    if own.devices != trained.devices:
        problems.append(
            f"--rollout-mesh {own.label} takes {own.devices} devices, the train step {trained.devices}; use as many"
        )
    if problems:
        raise BadInputError(problems)
    return trained.model_copy(update={"sampling": sampling})


def _rollout_mesh(request: SearchRequest, trained: Strategy) -> Mesh:
    """The rollout's mesh without --rollout-mesh: the train step's shards, or whole matrices if such a layout is named."""
    mesh = trained.mesh
    named = (request.filters.parameters or ("gathered-once",))[0]
    fsdp = mesh.fsdp * mesh.context if named.startswith("gathered") else 1
    return Mesh(data=mesh.devices // (fsdp * mesh.tensor), fsdp=fsdp, tensor=mesh.tensor)


ITERATION = Iteration()
