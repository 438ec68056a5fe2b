"""Loss and every gradient equal the single-device reference, in fp32, for mixtures of schemes, axes and knobs.

The smallest case of every scheme is in test_scheme_contract.py.
"""

from functools import cache
from typing import Any

import pytest
from equality import Case, assert_equal, errors

from lcplan.spec.model import ModelSpec, Rope
from lcplan.strategy import AXES, RING_SCHEMES, SCHEME_FACTS, SCHEMES, Mesh, Strategy
from lcplan.strategy.remat import REMAT_POLICIES

PLAIN = ModelSpec(name="odd groups", layers=2, d_model=48, d_ff=40, heads=12, kv_heads=4, head_dim=8, vocab=96)
RICH = ModelSpec(
    name="everything on",
    layers=2,
    d_model=32,
    d_ff=48,
    heads=8,
    kv_heads=2,
    head_dim=8,
    vocab=64,
    tied_embeddings=True,
    qkv_bias=True,
    out_bias=True,
    mlp_bias=True,
    qk_norm=True,
    activation="gelu_tanh",
    rope=Rope(theta=500.0, scaling="llama3", factor=4.0, original_max_position=16),
)


def strategy(scheme: str = "ring", remat: str = "full", loss_chunk_tokens: int = 16, **fields: Any) -> Strategy:
    mesh = Mesh(**{axis: fields.pop(axis) for axis in AXES if axis in fields})
    return Strategy(mesh=mesh, scheme=scheme, remat=remat, loss_chunk_tokens=loss_chunk_tokens, gather_dtype="fp32", **fields)


THREE = PLAIN.model_copy(update={"name": "three layers", "layers": 3})

FAST = [
    (PLAIN, strategy()),
    (RICH, strategy(remat="save-all", microbatches=2)),
    (PLAIN, strategy("ring-zigzag", context=4, fsdp=2, remat="save-attention")),
    (PLAIN, strategy("all-gather", context=4, tensor=2, remat="save-except-mlp")),
    (PLAIN, strategy("ulysses", context=4, fsdp=2, remat="save-all")),
    (RICH, strategy("ring-zigzag", context=2, tensor=4, remat="save-qkv")),  # two tensor ranks share a KV head
    (RICH, strategy("ulysses", context=4, tensor=2, remat="save-attention")),  # four context ranks share a KV head
    (RICH, strategy("ring", data=2, fsdp=2, context=2, remat="save-all")),
    (PLAIN, strategy("ring-zigzag", context=2, tensor=2, remat="offload-attention")),
    (RICH, strategy("ring", context=2, tensor=2, remat="offload-dots")),
    (THREE, strategy("ring-zigzag", context=2, fsdp=2, remat="offload-layer-in", offload_percent=50)),
    (PLAIN, strategy("ring", context=2, fsdp=2, remat="save-dots")),
    (PLAIN, strategy("ring-zigzag", context=2, tensor=2, collective_matmul="one-way", microbatches=2)),
    (PLAIN, strategy("ring", context=2, tensor=4, collective_matmul="two-way", remat="save-except-mlp")),
    (
        RICH,
        strategy("ring", fsdp=2, tensor=4, collective_matmul="one-way", remat="save-all"),
    ),  # two tensor ranks share a KV head
    (RICH, strategy(tensor=8, collective_matmul="two-way")),  # four do
    (RICH, strategy("all-gather", data=2, context=2, tensor=2, microbatches=2)),
    (PLAIN, strategy("ulysses", context=2, tensor=2, attention_block=4)),
    (RICH, strategy("ulysses-ring", ulysses=4, context=8, remat="save-all")),  # two ranks that exchange share a KV head
    (PLAIN, strategy("ulysses-ring", ulysses=2, context=8, bidirectional="on", remat="save-attention")),
    (PLAIN, strategy("ring-zigzag", context=4, fsdp=2, bidirectional="on")),
    (PLAIN, strategy("ring", context=4, tensor=2, bidirectional="on", remat="save-except-mlp")),
    (PLAIN, strategy("ring", data=2, fsdp=2, tensor=2, loss_chunk_tokens=10)),  # 10 does not divide: chunks of 8
]


@pytest.mark.parametrize(
    ("model", "strategy"), FAST, ids=lambda value: value.label if isinstance(value, Strategy) else value.name
)
def test_equals_reference(model, strategy):
    assert_equal(Case(model, strategy))


LANES = [(scheme, "off") for scheme in SCHEMES] + [(scheme, "on") for scheme in RING_SCHEMES]


def on_grid(test):
    """Every scheme, in one lane and two, by every remat policy and by fsdp and tensor of one and two."""
    test = pytest.mark.parametrize("remat", list(REMAT_POLICIES))(test)
    test = pytest.mark.parametrize(("fsdp", "tensor"), [(1, 1), (1, 2), (2, 1), (2, 2)])(test)
    return pytest.mark.slow(pytest.mark.parametrize(("scheme", "bidirectional"), LANES)(test))


def grid_point(scheme, *, bidirectional, fsdp, tensor, remat):
    """Rings of four where eight devices and the heads allow it: a ring of two has no hop of gradients that are not complete."""
    wide = fsdp * tensor == 1 or (fsdp * tensor == 2 and not (scheme == "ulysses" and tensor == 2))
    exchange = {"context": 4, "ulysses": 2} if SCHEME_FACTS[scheme].groups else {"context": 4 if wide else 2}
    mixed = strategy(scheme, remat, fsdp=fsdp, tensor=tensor, bidirectional=bidirectional, **exchange)
    if mixed.devices > 8:
        pytest.skip("more than eight devices")
    if bidirectional == "on" and tensor * mixed.ulysses == 4:
        pytest.skip("one KV head a rank")
    return mixed


@on_grid
def test_grid_equals_reference(scheme, bidirectional, fsdp, tensor, remat):
    assert_equal(Case(PLAIN, grid_point(scheme, bidirectional=bidirectional, fsdp=fsdp, tensor=tensor, remat=remat)))


def test_axis_order_does_not_change_the_result():
    order = ("data", "context", "fsdp", "expert", "tensor")
    assert_equal(Case(PLAIN, strategy("ring-zigzag", context=2, fsdp=2, tensor=2).model_copy(update={"axis_order": order})))


BF16 = [
    strategy("ring-zigzag", context=4, tensor=2),
    strategy("ulysses-ring", ulysses=2, context=8, bidirectional="on"),
    strategy("ulysses", context=4, fsdp=2, remat="save-all"),
]


@cache
def bf16_errors_of_one_device():
    return errors(Case(PLAIN, Strategy(mesh=Mesh()), precision="bf16"))


def assert_bf16_error_is_that_of_one_device(mixed):
    one = bf16_errors_of_one_device()
    many = errors(Case(PLAIN, mixed.model_copy(update={"gather_dtype": "bf16"}), precision="bf16"))
    for name, error in many.items():
        assert 0 < error < 2 * one[name], name
        assert error < 0.1, name


@pytest.mark.parametrize("mixed", BF16, ids=lambda value: value.label)
def test_bf16_error_is_that_of_one_device(mixed):
    assert_bf16_error_is_that_of_one_device(mixed)


@on_grid
def test_grid_of_bf16_errors_is_that_of_one_device(scheme, bidirectional, fsdp, tensor, remat):
    mixed = grid_point(scheme, bidirectional=bidirectional, fsdp=fsdp, tensor=tensor, remat=remat)
    assert_bf16_error_is_that_of_one_device(mixed)
