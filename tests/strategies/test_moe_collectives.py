"""The compiled step of a mixture of experts has the collectives that the laws list, in op, axis and bytes, and no others."""

from dataclasses import replace

import jax
import pytest
from compiled_step import WORKLOAD, collective_bytes, law_bytes

from lcplan.spec.experts import Experts
from lcplan.spec.model import ModelSpec
from lcplan.strategy import Mesh, Strategy
from strategies.inputs.step_spec import StepSpec
from strategies.parallel.mesh import build_mesh
from strategies.train.step import build_step

MODEL = ModelSpec(
    name="to read", layers=3, d_model=64, d_ff=96, heads=8, kv_heads=2, head_dim=8, vocab=136,
    experts=Experts(count=8, active=2, d_ff=32),
)  # fmt: skip
MIXED = MODEL.model_copy(
    update={"layers": 4, "experts": Experts(count=8, active=2, d_ff=32, shared_d_ff=48, shared_gate=True, first_dense=2)}
)
IN_TURN = MODEL.model_copy(update={"layers": 4, "experts": Experts(count=8, active=2, d_ff=32, every=2)})


def strategy(dispatch="dropless", remat="full", capacity=200, microbatches=1, matmul="off", **mesh):
    return Strategy(
        mesh=Mesh(**mesh), scheme="ring", remat=remat, microbatches=microbatches, loss_chunk_tokens=16,
        gather_dtype="fp32", moe_dispatch=dispatch, moe_capacity_percent=capacity, backend="host", collective_matmul=matmul,
    )  # fmt: skip


def compiled(strategy, model):
    mesh = build_mesh(strategy, jax.devices()[: strategy.devices])
    step = build_step(StepSpec(model, WORKLOAD, strategy, "blockwise"), mesh)
    return collective_bytes(step.jitted.lower(*step.abstract_arguments()).compile().as_text(), strategy)


FAST = [
    strategy(expert=4, context=2),
    strategy(expert=2, fsdp=2, tensor=2, remat="save-all"),
    strategy("capacity", expert=4, tensor=2),
    strategy("gather", expert=4, context=2, remat="save-except-mlp"),
]
SLOW = [
    strategy(expert=2, context=2, tensor=2, capacity=150, microbatches=2),
    strategy("capacity", expert=2, fsdp=2, context=2, remat="save-all", capacity=125),
    strategy("gather", expert=2, data=2, tensor=2, remat="save-all"),
    strategy(fsdp=2, context=2, tensor=2),
]


def named(strategy):
    return f"{strategy.moe_dispatch}-{strategy.label}"


@pytest.mark.parametrize("strategy", FAST, ids=named)
def test_collectives_are_as_listed(strategy):
    assert_as_listed(strategy)


def test_layers_of_two_kinds_have_both_lists():
    assert_as_listed(strategy(expert=2, context=2, tensor=2), MIXED)


@pytest.mark.parametrize("remat", ["full", "save-all"])
def test_only_dense_products_are_collective_matmuls(remat):
    assert_as_listed(strategy(expert=2, tensor=4, remat=remat, matmul="one-way"), MIXED)


@pytest.mark.slow
@pytest.mark.parametrize("model", [MIXED, IN_TURN], ids=["first", "in-turn"])
@pytest.mark.parametrize("strategy", [SLOW[0], strategy("capacity", expert=2, fsdp=2, tensor=2, remat="save-dots")], ids=named)
def test_more_lists_of_layers_of_two_kinds(strategy, model):
    assert_as_listed(strategy, model)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", SLOW, ids=named)
def test_more_collectives_are_as_listed(strategy):
    assert_as_listed(strategy)


def assert_as_listed(strategy, model=MODEL):
    wanted, got = law_bytes(strategy, model=model), compiled(strategy, model)
    scalars = 4 * 100  # loss, dropped rows, tokens that count, and one partial norm a parameter array
    for key in {*wanted, *got}:
        slack = scalars if key[0] == "all-reduce" else 0
        assert abs(wanted[key] - got[key]) <= slack, (key, wanted[key], got[key])


def test_nothing_is_dropped_where_the_capacity_is_the_worst_case():
    step = step_of(strategy(expert=4, fsdp=2, capacity=0))
    _, metrics = step.jitted(step.init(jax.random.key(0)), step.example_batch(jax.random.key(1)))
    assert float(metrics.dropped) == 0


@pytest.mark.parametrize("dispatch", ["dropless", "capacity", "gather"])
def test_rows_beyond_the_capacity_are_dropped_and_counted(dispatch):
    step = step_of(strategy(dispatch, expert=4, fsdp=2, capacity=10))
    _, metrics = step.jitted(step.init(jax.random.key(0)), step.example_batch(jax.random.key(1)))
    routed = MODEL.layers * WORKLOAD.tokens * MODEL.experts.active
    # the capacity of every rank, or expert, is a tenth of its share of a balanced load
    assert 0.85 * routed < float(metrics.dropped) < 0.95 * routed


def step_of(strategy):
    mesh = build_mesh(strategy, jax.devices()[: strategy.devices])
    return build_step(replace(StepSpec(MODEL, WORKLOAD, strategy, "blockwise")), mesh)
