"""A token sees what is in its document and in its window: every scheme, sharding mode, kernel and slice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from equality import LAYOUTS, Case, assert_equal, random_documents
from reference import naive_attention
from test_moe_equality import QWEN
from test_step_equality import PLAIN, RICH, strategy
from test_step_windows import FIRST_FULL, HALVES, TURNS, windowed

from lcplan.spec.workload import Workload
from lcplan.strategy import SCHEMES
from strategies.inputs.step_spec import StepSpec
from strategies.kernels.blockwise import BlockwiseKernel
from strategies.kernels.interface import Segments
from strategies.kernels.splash import SplashKernel
from strategies.train.rank_slice import build_slice, slowest_rank

FAST = [
    ("uneven", windowed(PLAIN, 5), strategy("ring", context=4, tensor=2)),
    ("uneven", windowed(PLAIN, 4, HALVES), strategy("ulysses-ring", ulysses=2, context=4)),
]
SLOW = [
    ("uneven", TURNS, strategy("ulysses-ring", ulysses=2, context=4, tensor=2)),
    ("uneven", TURNS, strategy("ring-zigzag", context=4)),
    ("crossing", windowed(RICH, 9), strategy("ulysses", context=4, tensor=2)),
    ("crossing", windowed(PLAIN, 19), strategy("ring", context=8)),  # a halo of five chunks
    ("any ids", windowed(PLAIN, 6), strategy("ring", "save-all", context=4, fsdp=2, microbatches=2)),
    ("uneven", TURNS, strategy("all-gather", "save-attention", context=4, tensor=2)),
    ("crossing", windowed(RICH, 5), strategy("ulysses-ring", ulysses=4, context=8)),  # each KV head on two ranks
    ("short", TURNS, strategy("ring-zigzag", context=4, tensor=2, bidirectional="on", collective_matmul="one-way")),
    ("crossing", FIRST_FULL, strategy("ring-zigzag", "save-qkv", context=2, tensor=2, microbatches=2)),
    ("uneven", windowed(PLAIN, 5), strategy("ring", context=4, tensor=2).model_copy(update={"sharding_mode": "auto"})),
    ("uneven", windowed(PLAIN, 5), strategy("ulysses", context=4).model_copy(update={"sharding_mode": "explicit"})),
    ("uneven", windowed(PLAIN, 7), strategy()),
    ("uneven", windowed(QWEN, 5), strategy("ring", context=2, expert=2, tensor=2, moe_capacity_percent=0)),
]


@pytest.mark.parametrize(("layout", "model", "mixed"), FAST, ids=lambda value: getattr(value, "label", None))
def test_equals_reference(layout, model, mixed):
    assert_equal(Case(model, mixed, documents=layout))


@pytest.mark.slow
@pytest.mark.parametrize(("layout", "model", "mixed"), SLOW, ids=lambda value: getattr(value, "label", None))
def test_mixtures_equal_reference(layout, model, mixed):
    assert_equal(Case(model, mixed, documents=layout))


@pytest.mark.slow
@pytest.mark.parametrize("remat", ["full", "save-attention"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_grid_equals_reference(scheme, layout, remat):
    exchange = {"ulysses": 2} if scheme == "ulysses-ring" else {}
    assert_equal(Case(TURNS, strategy(scheme, remat, context=4, tensor=2, **exchange), documents=layout))


def test_the_reference_sees_what_both_masks_leave():
    """Token 7 in a window of 4 in the document of tokens 5 to 9: tokens 5, 6 and 7."""
    rng = np.random.default_rng(3)
    q, k, v = (rng.normal(size=(1, 12, 1, 8)).astype(np.float32) for _ in range(3))
    ids = np.array([[0] * 5 + [1] * 5 + [2] * 2])
    weights = np.exp(k[0, 5:8, 0] @ q[0, 7, 0] / np.sqrt(8))
    wanted = weights @ v[0, 5:8, 0] / weights.sum()
    np.testing.assert_allclose(naive_attention(q, k, v, ids, window=4)[0, 7, 0], wanted, rtol=1e-5)


KERNELS = [
    lambda window: BlockwiseKernel(32, 64, window),
    lambda window: BlockwiseKernel(64, 32, window),
    lambda window: SplashKernel(interpret=True, window=window),
]


@pytest.mark.parametrize(("window", "keys", "layout"), [(50, 128, "crossing"), (129, 256, "any ids")])
@pytest.mark.parametrize("make", KERNELS, ids=["blockwise", "blockwise wide", "splash"])
def test_kernels_mask_both(make, window, keys, layout):
    """128 queries of the last keys, as a run and its halo."""
    rng = np.random.default_rng(0)
    q, do = (jnp.asarray(rng.normal(size=(2, 128, 2, 128)), jnp.float32) for _ in range(2))
    kv = jnp.asarray(rng.normal(size=(2, 2, keys, 1, 128)), jnp.float32)
    ids = random_documents(layout, 2, keys)

    def whole(q, kv):
        padded = jnp.pad(q, ((0, 0), (keys - 128, 0), (0, 0), (0, 0)))
        return naive_attention(padded, kv[0], kv[1], ids, window=window)[:, keys - 128 :]

    segments = Segments(jnp.asarray(ids[:, keys - 128 :]), jnp.asarray(ids))
    kernel = make(window)
    attended = kernel.forward(q, kv, mask="causal", segments=segments)
    wanted, vjp = jax.vjp(whole, q, kv)
    np.testing.assert_allclose(attended.o, wanted, atol=2e-5)
    gradients = kernel.backward(q, kv, attended=attended, do=do, mask="causal", segments=segments)
    for got, want in zip(gradients, vjp(do), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-4)


def packed_spec(model, scheme, document_len, kernel="blockwise", **fields):
    workload = Workload(seq_len=256, global_batch=4, document_len=document_len, precision="fp32")
    return StepSpec(model, workload, strategy(scheme, context=4, **fields), kernel)


def test_the_slowest_rank_is_counted_layer_by_layer():
    def place(model, *how):
        return slowest_rank(packed_spec(model, "ring", *how)).places["context"]

    turns = windowed(PLAIN, 8, HALVES)
    assert place(turns, 100) == 2  # as without windows: tokens 128 to 191 are nearest the end of their document
    assert place(windowed(PLAIN, 8), 100) == 2  # 29 of 64 tokens begin a document on rank 1 and 3, none on rank 2
    assert place(windowed(PLAIN, 8), None) == 3
    assert place(windowed(PLAIN, 8), 192, "splash") == 3  # no rank visits another's chunk
    assert place(turns, 192, "splash") == 2


@pytest.mark.parametrize("scheme", [pytest.param("ring", marks=pytest.mark.slow), "ulysses-ring"])
def test_a_slice_is_a_rank_of_both(scheme):
    model = windowed(PLAIN, 40, HALVES)
    part = build_slice(packed_spec(model, scheme, 100, **({"ulysses": 2} if scheme == "ulysses-ring" else {})))
    state, batch = part.init(jax.random.key(0)), part.example_batch(jax.random.key(1))
    assert np.isfinite(part.jitted(state, batch)[1].loss)
