"""Sliding windows: loss and gradients equal the reference in every scheme that has them, layers in turn too."""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiled_step import collective_bytes
from equality import Case, assert_equal, reference
from reference import naive_attention
from test_step_equality import PLAIN, RICH, strategy

from cost_models.collectives.step import collectives
from cost_models.inputs.setting import Setting
from lcplan.catalog import hardware
from lcplan.formats.errors import BadInputError
from lcplan.spec.windows import WindowPattern
from strategies.kernels.blockwise import BlockwiseKernel
from strategies.kernels.splash import SplashKernel
from strategies.parallel.mesh import build_mesh
from strategies.train.limits import check
from strategies.train.step import build_step


def windowed(model, window, pattern=None, **fields):
    return model.model_copy(update={"sliding_window": window, "window_pattern": pattern, **fields})


TURNS = windowed(PLAIN, 4, WindowPattern(windowed=2, full=1), layers=4)
"""Two windowed layers and a full one, and one windowed layer more."""
FIRST_FULL = windowed(RICH, 6, WindowPattern(first_full=1), layers=3)
"""Qwen2's way."""
FAST = [
    (windowed(PLAIN, 5), strategy("ring", context=4, tensor=2)),
    (windowed(PLAIN, 19), strategy("ring", context=8)),  # 4 tokens a chunk: a halo of five chunks
    (windowed(RICH, 9), strategy("ulysses", context=4, tensor=2)),
    (TURNS, strategy("ring-zigzag", "save-attention", context=4, tensor=2)),
]
SLOW = [
    (TURNS, strategy("ulysses-ring", ulysses=2, context=4, tensor=2)),
    (windowed(PLAIN, 2), strategy("ring", context=4)),  # of one token no gradient but the values' is other than zero
    (windowed(PLAIN, 8), strategy("ring", context=4, fsdp=2, microbatches=2)),
    (windowed(PLAIN, 9), strategy("ring", "save-all", context=4, tensor=2)),
    (windowed(PLAIN, 31), strategy("ring", context=4)),
    (windowed(PLAIN, 7), strategy("ring")),
    (windowed(PLAIN, 5), strategy("ring", context=4, tensor=2).model_copy(update={"sharding_mode": "auto"})),
    (windowed(PLAIN, 5), strategy("ulysses", context=4).model_copy(update={"sharding_mode": "explicit"})),
    (windowed(PLAIN, 5), strategy("ring", context=4, tensor=2, collective_matmul="one-way")),
    (TURNS, strategy("ring-zigzag", "save-attention", context=4, tensor=2).model_copy(update={"sharding_mode": "auto"})),
    (TURNS, strategy("ulysses", context=4, fsdp=2).model_copy(update={"sharding_mode": "explicit"})),
    (TURNS, strategy("ring", context=4, fsdp=2)),
    (TURNS, strategy("all-gather", context=4, tensor=2)),
    (TURNS, strategy("ulysses", "save-except-mlp", context=4)),
    (TURNS, strategy("ring-zigzag", context=4, bidirectional="on")),
    (TURNS, strategy("ring-zigzag")),
    (windowed(PLAIN, 5, WindowPattern(windowed=1, full=1)), strategy("ring-zigzag", context=4, fsdp=2)),  # all of a half chunk
    (TURNS, strategy("ulysses-ring", "save-attention", ulysses=2, context=8, bidirectional="on")),  # one KV head a lane
    (TURNS, strategy("ulysses-ring", "save-all", ulysses=4, context=8)),
    (windowed(PLAIN, 9), strategy("ulysses-ring", ulysses=2, context=4, fsdp=2)),  # all of a half chunk
    (windowed(RICH, 5), strategy("ulysses-ring", "save-except-mlp", ulysses=4, context=8)),  # each KV head on two ranks
    (windowed(PLAIN, 5), strategy("ulysses-ring", ulysses=2, context=4).model_copy(update={"sharding_mode": "explicit"})),
    (FIRST_FULL, strategy("ring", context=4, tensor=2)),
    (FIRST_FULL, strategy("ring-zigzag", "save-qkv", context=2, tensor=2, microbatches=2)),
    (
        FIRST_FULL,
        strategy("ring", "offload-attention", context=2, tensor=2, offload_percent=50),
    ),  # a run of one, two loops of one
    (
        windowed(PLAIN, 5, WindowPattern(windowed=1, full=1), layers=4),
        strategy("ring-zigzag", "offload-layer-in", context=2, tensor=2, offload_percent=50),  # a turn of two layers each
    ),
]


@pytest.mark.parametrize(("model", "mixed"), FAST, ids=lambda value: getattr(value, "label", None))
def test_equals_reference(model, mixed):
    assert_equal(Case(model, mixed))


@pytest.mark.slow
@pytest.mark.parametrize(("model", "mixed"), SLOW, ids=lambda value: getattr(value, "label", None))
def test_mixtures_equal_reference(model, mixed):
    assert_equal(Case(model, mixed))


def test_a_window_changes_the_loss_and_one_of_the_whole_sequence_does_not():
    plain, whole, short = (reference(windowed(PLAIN, window), 4, 32)[0] for window in (None, 32, 3))
    assert whole == plain
    assert abs(short / plain - 1) > 1e-3


@pytest.mark.parametrize("keys", [128, 256, 384])
@pytest.mark.parametrize("window", [1, 50, 128, 200])
@pytest.mark.parametrize(
    "make", [lambda window: BlockwiseKernel(32, 64, window), lambda window: BlockwiseKernel(64, 32, window)]
)
def test_blockwise_attends_within_the_window(make, window, keys):
    assert_kernel(make(window), window, keys)


@pytest.mark.parametrize(("window", "keys"), [(50, 128), (129, 256), (200, 384)])
def test_splash_attends_within_the_window(window, keys):
    assert_kernel(SplashKernel(interpret=True, window=window), window, keys)


def assert_kernel(kernel, window, keys):
    """128 queries of the last keys: output and gradients as of whole attention, of which these are the last rows."""
    rng = np.random.default_rng(0)
    q, do = (jnp.asarray(rng.normal(size=(1, 128, 2, 128)), jnp.float32) for _ in range(2))
    kv = jnp.asarray(rng.normal(size=(2, 1, keys, 1, 128)), jnp.float32)

    def whole(q, kv):
        padded = jnp.pad(q, ((0, 0), (keys - 128, 0), (0, 0), (0, 0)))
        return naive_attention(padded, kv[0], kv[1], window=window)[:, keys - 128 :]

    attended = kernel.forward(q, kv, mask="causal")
    wanted, vjp = jax.vjp(whole, q, kv)
    np.testing.assert_allclose(attended.o, wanted, atol=2e-5)
    dq, dkv = kernel.backward(q, kv, attended=attended, do=do, mask="causal")
    for got, want in zip((dq, dkv), vjp(do), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-4)


@pytest.mark.parametrize(
    ("model", "mixed", "message"),
    [
        (windowed(PLAIN, 6), strategy("ring-zigzag", context=4), "reaches beyond a half chunk of 4 tokens; use scheme ring"),
        (
            windowed(PLAIN, 10),
            strategy("ulysses-ring", ulysses=2, context=4),
            "reaches beyond a half chunk of 8 tokens; use scheme ring",
        ),
    ],
)
def test_what_is_refused(model, mixed, message):
    with pytest.raises(BadInputError, match=message):
        check(Case(model, mixed).spec())


HALVES = WindowPattern(windowed=1, full=1)


@pytest.mark.parametrize(
    ("model", "mixed"),
    [
        (windowed(PLAIN, 12), strategy("ring", context=4, tensor=2)),  # 8 tokens of one chunk and 8 of the next
        (windowed(PLAIN, 4, HALVES, layers=4), strategy("ring-zigzag", "save-attention", context=4)),
        (windowed(PLAIN, 4, HALVES, layers=4), strategy("all-gather", context=4)),
        (windowed(PLAIN, 4, HALVES, layers=4), strategy("ulysses", context=4)),
        (windowed(PLAIN, 4, HALVES, layers=4), strategy("ulysses-ring", "save-attention", ulysses=2, context=8)),
        pytest.param(  # each KV head on two ranks
            windowed(RICH, 5), strategy("ulysses-ring", ulysses=4, context=8), marks=pytest.mark.slow
        ),
    ],
    ids=lambda value: getattr(value, "label", None),
)
def test_the_context_axis_moves_what_the_law_says(model, mixed):
    spec = Case(model, mixed).spec()
    step = build_step(spec, build_mesh(mixed, jax.devices()[: mixed.devices]))
    text = step.jitted.lower(*step.abstract_arguments()).compile().as_text()
    machine = hardware("cpu-host")
    wanted = Counter()
    for use in collectives(Setting(model, machine, spec.workload, machine.usable_bytes), mixed):
        wanted[use.op, use.axis] += use.bytes * use.calls
    got = collective_bytes(text, mixed)
    ops = ("collective-permute", "all-to-all", "all-gather", "reduce-scatter")
    uses = [(op, axes) for op in ops for axes in ("context", f"context/{mixed.ulysses}")]
    assert {use: got[use] for use in uses} == {use: wanted[use] for use in uses}
