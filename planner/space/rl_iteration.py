"""``--workload rl``: train strategies worth their place, each with every rollout that runs on the same devices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cost_models.inputs.table import StrategyTable
from cost_models.rollout.iteration import IterationTable, estimate_iteration
from cost_models.rollout.table import RolloutTable
from lcplan.formats.errors import BadInputError
from lcplan.spec.rollout_workloads import RlWorkload
from lcplan.strategy import AXES, Mesh, Sampling, Strategy
from planner.candidates.pricing import price_table
from planner.request.request import SearchRequest
from planner.rules.rollout import layout_problems
from planner.space.analysis import Analysis, analyse, setting_of, valid_points
from planner.space.rollout_analysis import rollout_points
from planner.space.survivors import Costs, pareto_front


def train_request(request: SearchRequest) -> SearchRequest:
    """The request of the iteration's train step."""
    work = request.workload
    assert isinstance(work, RlWorkload), "a request of an iteration"
    return request.model_copy(update={"workload": work.train})


def sample_request(request: SearchRequest) -> SearchRequest:
    """The request of the iteration's rollout: on any mesh, for its own may differ from the train step's."""
    work = request.workload
    assert isinstance(work, RlWorkload), "a request of an iteration"
    filters = request.filters.model_copy(update={"mesh": {}})
    return request.model_copy(update={"workload": work.sample, "filters": filters})


def analyse_iteration(request: SearchRequest, backends: tuple[str, ...]) -> Analysis:
    """The train step's analysis with every rollout beside each strategy on its mesh's front."""
    trained = analyse(train_request(request), backends)
    table = _joined(request, trained.table, rollout_points(sample_request(request), backends))
    setting = setting_of(request)
    return replace(trained, setting=setting, table=table, estimates=estimate_iteration(setting, table))


def iteration_points(request: SearchRequest, backends: tuple[str, ...], *, most_devices: int | None = None) -> IterationTable:
    """Every iteration whose parts break no rule, of at most ``most_devices`` devices."""
    trained = valid_points(train_request(request), backends, most_devices=most_devices)
    return _joined(request, trained, rollout_points(sample_request(request), backends, most_devices=most_devices))


def _joined(request: SearchRequest, trained: StrategyTable, rollouts: RolloutTable) -> IterationTable:
    """Train strategies on the front of their mesh, times the rollouts of the same devices that can follow them."""
    trained = trained.take(_fronts(request, trained))
    pairs = (trained.devices[:, None] == rollouts.devices[None, :]) & _follows(trained, rollouts)
    left, right = np.nonzero(pairs)
    own = {name: getattr(trained, name)[left] for name in StrategyTable.__dataclass_fields__}
    added = set(RolloutTable.__dataclass_fields__) - set(StrategyTable.__dataclass_fields__)
    return IterationTable(**own, **{name: getattr(rollouts, name)[right] for name in added})


def _follows(trained: StrategyTable, rollouts: RolloutTable) -> np.ndarray:
    """Rollouts that gather do so from the trained shards where they lie; the others are resharded to from anywhere."""
    gathers = rollouts.is_layout("gathered-once", "gathered-per-step")[None, :]
    shards, alike = trained.fsdp * trained.context, trained.tensor[:, None] == rollouts.tensor[None, :]
    same = alike & (trained.data[:, None] == rollouts.data[None, :]) & (shards[:, None] == rollouts.fsdp[None, :])
    return np.asarray(~gathers | same)


def _fronts(request: SearchRequest, trained: StrategyTable) -> np.ndarray:
    """Rows that no other row of the same mesh beats in time and memory."""
    if not len(trained):
        return np.zeros(0, dtype=np.int64)
    priced = price_table(setting_of(train_request(request)), trained)
    meshes = np.stack([getattr(trained, axis) for axis in AXES], axis=1)
    _, which = np.unique(meshes, axis=0, return_inverse=True)
    kept = []
    for mesh in range(int(which.max()) + 1):
        rows = np.flatnonzero(which.ravel() == mesh)
        costs = Costs(priced.step_s[rows], priced.total_bytes[rows], np.ones(len(rows)))
        kept.append(rows[pareto_front(costs)])
    return np.concatenate(kept)


def with_rollout(request: SearchRequest, trained: Strategy) -> Strategy:
    """The train strategy with the rollout that the filters name: left open, its shards are gathered once, or it has them all.

    Raises
    ------
    BadInputError
        The rollout cannot have that layout beside this mesh.
    """
    mesh, filters = trained.mesh, request.filters
    shards = mesh.fsdp * mesh.context
    whole = "tensor-sharded" if mesh.tensor > 1 else "replicated"
    layout = (filters.parameters or ("gathered-once" if shards > 1 else whole,))[0]
    fsdp = shards if layout.startswith("gathered") else 1
    own = Mesh(data=mesh.devices // (fsdp * mesh.tensor), fsdp=fsdp, tensor=mesh.tensor)
    sampling = Sampling.model_validate(
        {"mesh": own, "parameters": layout, "cache": (filters.cache or ("whole",))[0], "beside_training": True}
    )
    problems = list(layout_problems(sampling))
    if request.workload.global_batch % own.devices:
        problems.append(f"batch={request.workload.global_batch} is not divided by the {own.devices} devices of the rollout")
    if problems:
        raise BadInputError(problems)
    return trained.model_copy(update={"sampling": sampling})
