"""A mixture of experts: loss and every gradient equal the reference that runs every expert, in fp32, for each dispatch."""

import pytest
from equality import Case, assert_equal

from lcplan.spec.experts import Experts
from lcplan.spec.model import ModelSpec
from lcplan.strategy import Mesh, Strategy

QWEN = ModelSpec(
    name="experts", layers=2, d_model=48, d_ff=8, heads=4, kv_heads=2, head_dim=8, vocab=96, qk_norm=True,
    experts=Experts(count=8, active=3, d_ff=24),
)  # fmt: skip
UNSCALED = QWEN.model_copy(update={"experts": Experts(count=8, active=2, d_ff=24, normalized=False)})

SHARED = QWEN.model_copy(update={"experts": Experts(count=8, active=2, d_ff=24, shared_d_ff=40)})
WEIGHED = QWEN.model_copy(
    update={"experts": Experts(count=8, active=2, d_ff=24, shared_d_ff=40, shared_gate=True, normalized=False)}
)
DENSE_FIRST = QWEN.model_copy(
    update={
        "name": "as DeepSeek-V3",
        "layers": 3,
        "experts": Experts(
            count=8, active=3, d_ff=24, shared_d_ff=8, shared_gate=True, first_dense=1,
            scores="sigmoid", scale=2.5, groups=4, groups_chosen=2, group_best=2,
        ),
    }
)  # fmt: skip
IN_TURN = QWEN.model_copy(
    update={
        "name": "in turn",
        "layers": 5,
        "experts": Experts(count=4, active=1, d_ff=24, every=2, normalized=False, groups=2),
    }
)


def strategy(dispatch="dropless", remat="full", microbatches=1, scheme="ring-zigzag", matmul="off", **mesh):
    return Strategy(
        mesh=Mesh(**mesh), scheme=scheme, remat=remat, microbatches=microbatches, loss_chunk_tokens=16,
        gather_dtype="fp32", moe_dispatch=dispatch, moe_capacity_percent=0, collective_matmul=matmul,
    )  # fmt: skip


FAST = [
    (QWEN, strategy()),
    (QWEN, strategy(expert=4)),
    (QWEN, strategy(expert=2, context=2, tensor=2)),
    (UNSCALED, strategy(expert=2, context=2, fsdp=2, remat="save-all")),
    (QWEN, strategy("capacity", expert=4, context=2)),
    (QWEN, strategy("gather", expert=2, context=2, tensor=2)),
    (DENSE_FIRST, strategy(expert=2, context=2, tensor=2)),
    (DENSE_FIRST, strategy(expert=2, tensor=4, matmul="one-way")),
]
SLOW = [
    (IN_TURN, strategy(expert=4, tensor=2, remat="save-except-mlp")),
    (QWEN, strategy(expert=2, data=2, tensor=2, remat="save-except-mlp")),
    (UNSCALED, strategy(expert=2, tensor=4, remat="save-all")),  # two tensor ranks share a KV head
    (UNSCALED, strategy("capacity", expert=2, fsdp=2, tensor=2, remat="save-all")),
    (UNSCALED, strategy("gather", expert=4, fsdp=2, remat="save-all")),
    (QWEN, strategy(expert=2, context=2, fsdp=2, microbatches=2, scheme="ulysses")),
    (QWEN, strategy(context=4, tensor=2, remat="save-all")),  # experts whole on every rank
    (SHARED, strategy(expert=2, context=2, tensor=2)),
    (SHARED, strategy(expert=4, fsdp=2, remat="save-all")),
    (WEIGHED, strategy("capacity", expert=2, tensor=2, fsdp=2, remat="save-all")),
    (WEIGHED, strategy("gather", expert=2, context=2, tensor=2, microbatches=2)),
    (DENSE_FIRST, strategy(expert=2, fsdp=2, context=2, remat="save-all", microbatches=2)),
    (DENSE_FIRST, strategy(tensor=2, data=2, context=2, remat="save-qkv")),
    (IN_TURN, strategy("capacity", expert=2, context=4, remat="save-dots")),
    (SHARED, strategy("capacity", expert=2, context=2, tensor=2, remat="save-all", matmul="two-way")),
]


@pytest.mark.parametrize(("model", "strategy"), FAST, ids=lambda value: getattr(value, "label", None))
def test_equals_reference(model, strategy):
    assert_equal(Case(model, strategy, global_batch=8))


@pytest.mark.slow
@pytest.mark.parametrize(("model", "strategy"), SLOW, ids=lambda value: getattr(value, "label", None))
def test_more_mixtures_of_axes_equal_reference(model, strategy):
    assert_equal(Case(model, strategy, global_batch=8))
