"""Expert ranks that are folded over other axes: the same cost as an expert axis in the same place, and by hand elsewhere."""

import numpy as np
import pytest

from cost_models.collectives.experts import expert_terms
from cost_models.collectives.group_span import span_of, subgroup_span
from cost_models.collectives.step import collective_terms
from cost_models.estimate import estimate
from cost_models.experts.buffers import ExpertLayout
from cost_models.inputs.layout import Layout
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan import catalog
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy
from planner.rules.sharding import SHARDING_RULES

HARDWARE = catalog.hardware("dgx-h100x4")


def setting(model="qwen3-30b-a3b", hardware=HARDWARE):
    return Setting(catalog.model(model), hardware, Workload(seq_len=8192, global_batch=128), hardware.usable_bytes)


def table(*strategies):
    return StrategyTable.from_strategies(strategies)


@pytest.mark.parametrize("model", ["qwen3-30b-a3b", "mixtral-8x7b", "deepseek-moe-16b"])
@pytest.mark.parametrize("knobs", [{}, {"moe_dispatch": "capacity"}, {"moe_dispatch": "gather"}, {"remat": "save-all"}])
@pytest.mark.parametrize("tensor", [1, 2])
def test_ranks_in_the_place_of_the_axis_cost_the_same(model, knobs, tensor):
    axis = Strategy(mesh=Mesh(fsdp=4 // tensor, expert=8, tensor=tensor), **knobs)
    folded = Strategy(mesh=Mesh(fsdp=32 // tensor, tensor=tensor), expert_fold=8, **knobs)
    found = estimate(setting(model), table(axis, folded))
    for parts in (found.memory_bytes, found.time_s):
        for name, column in parts.items():
            assert column[0] == pytest.approx(column[1]), name


def test_rows_and_matrices_of_a_rank():
    """128 sequences of 8192 tokens over fsdp 4, context 4 and tensor 2: a rank has 2048 tokens of 32 sequences."""
    mesh = Mesh(fsdp=4, context=4, tensor=2)
    layout = Layout(setting(), table(*(Strategy(mesh=mesh, expert_fold=8, expert_tensor=kind) for kind in ("split", "whole"))))
    part = ExpertLayout(layout)
    assert part.own.tolist() == [16, 16]
    assert part.assigned.tolist() == [8 * 32 * 2048, 8 * 32 * 2048 / 2]
    assert part.matrices.tolist() == [16 * 3 * 2048 * 768 / 2, 16 * 3 * 2048 * 768]
    assert part.width.tolist() == [384, 768]
    assert layout.expert_replicas.tolist() == [2, 4]


def test_the_groups_of_folded_ranks():
    """Experts on the innermost ranks outside the tensor ranks that split them; replicas of an expert beyond these."""
    mesh = Mesh(fsdp=4, context=4, tensor=2)
    layout = Layout(setting(), table(*(Strategy(mesh=mesh, expert_fold=8, expert_tensor=kind) for kind in ("split", "whole"))))
    experts = subgroup_span(layout, span_of(layout, ("expert",)), "experts")
    assert (experts.members.tolist(), experts.stride.tolist(), experts.inner.tolist()) == ([8, 8], [2, 1], [4, 8])
    replicas = subgroup_span(layout, span_of(layout, ("fsdp", "context")), "expert-replicas")
    assert (replicas.members.tolist(), replicas.stride.tolist()) == ([2, 4], [16, 8])


def test_a_group_of_one_replica_has_no_collective():
    layout = Layout(setting(), table(Strategy(mesh=Mesh(fsdp=8, context=4), expert_fold=32)))
    matrices = [term for term in expert_terms(layout) if term.purpose == "expert-matrices"]
    assert matrices
    assert all(term.calls.tolist() == [0] for term in matrices)


@pytest.mark.parametrize(("model", "gathers", "scatters"), [("qwen3-30b-a3b", 3, 3), ("deepseek-moe-16b", 6, 5)])
def test_whole_experts_need_no_gather_over_tensor(model, gathers, scatters):
    """Full recomputation: 6 gathers and 5 scatters a layer, of which attention has 3 and 3. Shared experts need the others."""
    strategies = [Strategy(mesh=Mesh(fsdp=16, tensor=2), expert_fold=8, expert_tensor=kind) for kind in ("split", "whole")]
    found = {}
    for term in collective_terms(setting(model), table(*strategies)):
        if term.purpose == "stream":
            found[term.op] = found.get(term.op, 0) + term.calls
    layers = catalog.model(model).expert_layers
    lost = {op: (column[0] - column[1]) / layers for op, column in found.items()}
    assert lost == {"all-gather": 6 - gathers, "reduce-scatter": 5 - scatters}


REFUSED = [
    ("llama3-8b", HARDWARE, Strategy(mesh=Mesh(fsdp=32), expert_fold=8), "is dense and has no experts"),
    ("qwen3-30b-a3b", catalog.hardware("tpu-v5p-64"), Strategy(mesh=Mesh(fsdp=32), expert_fold=8), "no trainer folds experts"),
    ("qwen3-30b-a3b", HARDWARE, Strategy(mesh=Mesh(fsdp=16, expert=2), expert_fold=8), "an axis or folded; use one"),
    ("qwen3-30b-a3b", HARDWARE, Strategy(mesh=Mesh(data=8, fsdp=4), expert_fold=8), "the 4 ranks of context x fsdp"),
    ("mixtral-8x7b", HARDWARE, Strategy(mesh=Mesh(fsdp=32), expert_fold=16), "the 8 experts of mixtral-8x7b; use 1, 2, 4 or 8"),
]


@pytest.mark.parametrize(("model", "hardware", "strategy", "reason"), REFUSED)
def test_ranks_that_cannot_be_folded(model, hardware, strategy, reason):
    [rule] = [one for one in SHARDING_RULES if one.name == "expert-fold"]
    plain = strategy.model_copy(update={"expert_fold": 1})
    assert rule.broken(setting(model, hardware), table(strategy, plain)).tolist() == [True, False]
    assert reason in rule.explain(setting(model, hardware), strategy)


def test_whole_experts_take_tensor_ranks_too():
    [rule] = [one for one in SHARDING_RULES if one.name == "expert-fold"]
    kinds = [Strategy(mesh=Mesh(fsdp=4, tensor=2), expert_fold=8, expert_tensor=kind) for kind in ("split", "whole")]
    assert rule.broken(setting(), table(*kinds)).tolist() == [True, False]


def test_a_folded_mesh_has_communicators_for_experts_and_replicas():
    mesh = Mesh(fsdp=8, context=4)
    found = estimate(setting(), table(Strategy(mesh=mesh), Strategy(mesh=mesh, expert_fold=8)))
    step = HARDWARE.allowance.communicator_bytes.value
    assert np.diff(found.allowance_bytes).tolist() == [2 * step]
