"""Caches of a rollout: mixtures, windows shorter than the prompt, fp8, and the kernel that reads a stack in place."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from equality import random_params
from reference import naive_attention, reference_logits
from test_moe_equality import DENSE_FIRST, QWEN
from test_sampling import GENERATE, LENGTHS, PROMPT, alone, assert_near, params_of, prompts_of, step_of
from test_step_equality import PLAIN
from test_step_windows import TURNS, windowed

from strategies.rollout.cache import LARGEST, Stack, scaled, write_token
from strategies.rollout.cached_attention import Reader, attend_by_products
from strategies.rollout.gpu_attention import attend_in_place, splits_of

MODELS = [
    pytest.param(QWEN, "gathered-per-step", {"fsdp": 2, "tensor": 2}, marks=pytest.mark.slow),
    (QWEN, "gathered-once", {"fsdp": 4, "tensor": 2}),  # shards of the router lie between tensor ranks
    (DENSE_FIRST, "replicated", {"data": 4}),
    (windowed(PLAIN, 4), "gathered-per-step", {"fsdp": 4, "tensor": 2}),
    pytest.param(TURNS, "tensor-sharded", {"tensor": 2, "data": 2}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("model", "parameters", "mesh"), MODELS, ids=lambda value: getattr(value, "name", str(value)))
def test_mixtures_and_windows_give_what_each_prompt_gives_alone(model, parameters, mesh):
    step = step_of(model, parameters, "power-of-two", **mesh)
    made = step.sample(params_of(step, model), prompts_of(model), lengths_B=LENGTHS)
    tokens, log_probs = alone(model, 0)
    np.testing.assert_array_equal(np.asarray(made.tokens_BG), tokens)
    np.testing.assert_allclose(np.asarray(made.log_probs_BG), log_probs, atol=2e-4)


def test_a_windowed_layer_keeps_its_window_only():
    step = step_of(TURNS, "replicated", data=2)
    slots = [stack.slots for stack in step.empty_cache().stacks]
    assert sorted(set(slots)) == [4, PROMPT + GENERATE]
    assert sum(stack.keys.shape[0] for stack in step.empty_cache().stacks) == TURNS.layers


def test_logits_of_an_fp8_cache_are_near_those_of_fp32():
    """e4m3 rounds by 2^-4 at most; with random weights the logits move by some hundredths of their spread."""
    step = step_of(PLAIN, "gathered-per-step", fsdp=4, tensor=2, kv_dtype="fp8")
    params, prompts = params_of(step, PLAIN), prompts_of(PLAIN)
    cache = step.prefill(params, step.empty_cache(), prompts)
    assert cache.stacks[0].keys.dtype == jnp.float8_e4m3fn
    _, found = step.decode(params, cache, prompts[:, -1], jnp.int32(PROMPT - 1))
    wanted = np.asarray(reference_logits(random_params(PLAIN), jnp.asarray(prompts), model=PLAIN)[:, -1])
    error = np.sqrt(np.mean((np.asarray(found) - wanted) ** 2))
    assert 1e-4 < error < 0.1 * wanted.std(), "rounded, and not by much"


def test_a_row_in_fp8_is_right_to_half_a_step_of_its_mantissa():
    x = jnp.concatenate([jax.random.normal(jax.random.key(0), (64, 32)) * 100, jnp.zeros((1, 32))])
    rows, factors = scaled(x)
    found = np.asarray(rows.astype(jnp.float32) * factors[:, None])
    assert float(rows.astype(jnp.float32).max()) <= LARGEST
    smallest = np.asarray(factors)[:, None] * 2.0**-10  # half of the step between subnormal numbers
    assert (np.abs(found - np.asarray(x)) <= np.maximum(np.abs(np.asarray(x)) / 16, smallest)).all()


def stack_of(dtype, *, slots, layers=3, batch=2, kv_heads=2, head_dim=16):
    rng = np.random.default_rng(0)
    keys, values = (rng.normal(size=(layers, batch, kv_heads, slots, head_dim)).astype(np.float32) for _ in range(2))
    if dtype != "fp8":
        return Stack(jnp.asarray(keys, dtype), jnp.asarray(values, dtype))
    (keys, key_scales), (values, value_scales) = scaled(jnp.asarray(keys)), scaled(jnp.asarray(values))
    return Stack(keys, values, key_scales, value_scales)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-6), ("bfloat16", 2e-2), ("fp8", 2e-2)])
@pytest.mark.parametrize(("slots", "length", "position"), [(130, 130, 100), (200, 128, 70), (64, 64, 300)])
def test_the_kernel_of_the_cache_gives_what_the_products_give(dtype, tolerance, slots, length, position):
    stack = stack_of(dtype, slots=slots)
    q = jax.random.normal(jax.random.key(1), (2, 2, 3, 16), jnp.float32)
    seen = Reader(jnp.int32(position), jnp.array([0, 40]), length).seen(slots, length)
    layer = jnp.int32(1)
    wanted = attend_by_products(q, stack, seen, layer=layer)
    found = attend_in_place(q, stack, seen, layer=layer, interpret=True)
    assert splits_of(4, length) == -(-length // 64)
    for part, other in zip((found.o, found.top, found.sums), (wanted.o, wanted.top, wanted.sums), strict=True):
        np.testing.assert_allclose(part, other, rtol=tolerance, atol=tolerance * float(jnp.abs(other).max()))


def test_the_last_slots_of_a_ring_are_attended_in_any_order():
    """A window of 5 tokens, positions written one after another: attention is that of the last 5."""
    rng = np.random.default_rng(0)
    keys, values = (jnp.asarray(rng.normal(size=(1, 12, 1, 16)), jnp.float32) for _ in range(2))  # B T K H
    stack = Stack(*(jnp.zeros((1, 1, 1, 5, 16)) for _ in range(2)))
    for position in range(11):
        new = jnp.stack([keys[:, position], values[:, position]])[:, None]
        stack = write_token(stack, new, jnp.int32(position))
    q = jax.random.normal(jax.random.key(2), (1, 1, 2, 16), jnp.float32)
    reader = Reader(jnp.int32(11), jnp.zeros(1, jnp.int32), 12)
    found = reader.attend(q, jnp.stack([keys[:, 11], values[:, 11]]), stack, layer=jnp.int32(0))
    queries = jnp.broadcast_to(q.reshape(1, 1, 2, 16), (1, 12, 2, 16))
    assert_near(found.reshape(2, 16), naive_attention(queries, keys, values, window=5)[0, -1])
