"""Decoding with the cache gives the logits of the full forward pass, in fp32, for every layout and mixture of axes."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from equality import random_params
from jax.sharding import PartitionSpec as P
from reference import reference_logits
from test_step_equality import PLAIN, RICH

from lcplan.formats.errors import BadInputError
from lcplan.spec.model import ModelSpec
from lcplan.spec.rollout_workloads import SampleWorkload
from lcplan.strategy import Mesh, Sampling, Strategy
from strategies.parallel.mesh import TENSOR, build_mesh
from strategies.rollout.limits import check
from strategies.rollout.next_token import sampled
from strategies.rollout.sample_spec import SampleSpec, cache_lengths
from strategies.rollout.step import SampleStep, build_step

PROMPT, GENERATE, BATCH = 6, 7, 8


def step_of(model: ModelSpec, parameters: str, layout: str = "whole", **options: Any) -> SampleStep:
    fields = {name: options.pop(name) for name in tuple(options) if name in SampleWorkload.model_fields}
    sizes = Mesh(**options)
    sized = {"prompt": PROMPT, "generate": GENERATE, "batch": BATCH}
    work = SampleWorkload(**{**sized, "precision": "fp32", "kv_dtype": "fp32", "temperature": 0, **fields})
    sampling = Sampling(mesh=sizes, parameters=parameters, cache=layout)
    strategy = Strategy(mesh=sizes, gather_dtype="fp32", sampling=sampling)
    return build_step(SampleSpec(model, work, strategy, "blockwise"), build_mesh(strategy, jax.devices()[: sizes.devices]))


def params_of(step: SampleStep, model: ModelSpec) -> Any:
    """Parameters as the layout has them."""
    flat = jax.tree.unflatten(jax.tree.structure(step.shapes), jax.tree.leaves(random_params(model)))
    return jax.device_put(flat, step.shardings)


@cache
def prompts_of(model: ModelSpec) -> np.ndarray:
    return np.random.default_rng(2).integers(0, model.vocab, (BATCH, PROMPT), dtype=np.int32)


@cache
def greedy_reference(model: ModelSpec) -> tuple[np.ndarray, list[np.ndarray]]:
    """Tokens B T and each new token's logits, by the whole forward pass; what is not there yet is behind the causal mask."""
    forward = jax.jit(lambda params, tokens: reference_logits(params, tokens, model=model))
    tokens, logits = np.zeros((BATCH, PROMPT + GENERATE), np.int32), []
    tokens[:, :PROMPT] = prompts_of(model)
    for position in range(PROMPT, PROMPT + GENERATE):
        logits.append(np.asarray(forward(random_params(model), tokens)[:, position - 1]))
        tokens[:, position] = logits[-1].argmax(axis=1)
    return tokens, logits


LAYOUTS = [
    (PLAIN, "replicated", {"data": 1}),
    (PLAIN, "replicated", {"data": 8}),
    (RICH, "gathered-per-step", {"fsdp": 8}),
    (PLAIN, "gathered-per-step", {"data": 2, "fsdp": 2, "tensor": 2}),
    (RICH, "gathered-once", {"fsdp": 4}),
    (RICH, "gathered-once", {"fsdp": 2, "tensor": 4}),  # shards of key/value weights lie between tensor ranks
    (PLAIN, "gathered-once", {"fsdp": 2, "tensor": 4}),
    (PLAIN, "tensor-sharded", {"tensor": 4, "data": 2}),
    (RICH, "tensor-sharded", {"tensor": 4, "data": 2}),  # two tensor ranks share a KV head
    (RICH, "gathered-per-step", {"tensor": 4, "fsdp": 2}),
]


@pytest.mark.parametrize(("model", "parameters", "mesh"), LAYOUTS, ids=lambda value: getattr(value, "name", str(value)))
def test_prefill_and_decode_give_the_logits_of_the_full_forward_pass(model, parameters, mesh):
    step = step_of(model, parameters, **mesh)
    params, (tokens, wanted) = params_of(step, model), greedy_reference(model)
    cache = step.prefill(params, step.empty_cache(), prompts_of(model))
    for number, logits in enumerate(wanted):
        cache, found = step.decode(params, cache, tokens[:, PROMPT - 1 + number], jnp.int32(PROMPT - 1 + number))
        assert_near(found, logits)


def assert_near(found: Any, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=2e-4, atol=2e-4 * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("parameters", "layout", "mesh"),
    [
        ("gathered-per-step", "whole", {"fsdp": 4}),
        ("tensor-sharded", "power-of-two", {"tensor": 4}),
        ("gathered-once", "whole", {"fsdp": 4}),
        ("gathered-once", "power-of-two", {"fsdp": 2, "tensor": 2}),
    ],
)
def test_temperature_zero_is_greedy_search_with_the_models_log_probabilities(parameters, layout, mesh):
    step = step_of(PLAIN, parameters, layout, **mesh)
    tokens, logits = greedy_reference(PLAIN)
    made = step.sample(params_of(step, PLAIN), prompts_of(PLAIN))
    np.testing.assert_array_equal(np.asarray(made.tokens_BG), tokens[:, PROMPT:])
    wanted = np.stack([jax.nn.log_softmax(each).max(axis=1) for each in logits], axis=1)
    np.testing.assert_allclose(np.asarray(made.log_probs_BG), wanted, atol=1e-4)


LENGTHS = np.array([6, 1, 3, 5, 2, 6, 4, 1], np.int32)


@cache
def alone(model: ModelSpec, temperature: float) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and log-probabilities B G of greedy search for each of ``LENGTHS`` prompts by itself, without padding."""
    forward = jax.jit(lambda params, tokens: reference_logits(params, tokens, model=model))
    made = []
    for prompt, length in zip(prompts_of(model), LENGTHS, strict=True):
        tokens, found = np.zeros((1, PROMPT + GENERATE), np.int32), []
        tokens[0, :length] = prompt[:length]
        for position in range(length, length + GENERATE):
            logits = np.asarray(forward(random_params(model), tokens))[0, position - 1]
            tokens[0, position] = logits.argmax()
            found.append(jax.nn.log_softmax(logits / (temperature or 1)).max())
        made.append((tokens[0, length : length + GENERATE], np.array(found)))
    tokens_BG, log_probs_BG = (np.stack(parts) for parts in zip(*made, strict=True))
    return tokens_BG, log_probs_BG


@pytest.mark.parametrize(
    ("model", "parameters", "layout", "mesh"),
    [
        (PLAIN, "replicated", "power-of-two", {"data": 8}),
        (RICH, "gathered-per-step", "whole", {"fsdp": 4, "tensor": 2}),
        (RICH, "gathered-once", "power-of-two", {"fsdp": 2, "tensor": 4}),
        (PLAIN, "tensor-sharded", "whole", {"tensor": 4, "data": 2}),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_prompts_of_unequal_length_give_what_each_gives_alone(model, parameters, layout, mesh):
    step = step_of(model, parameters, layout, **mesh)
    made = step.sample(params_of(step, model), prompts_of(model), lengths_B=LENGTHS)
    tokens, log_probs = alone(model, 0)
    np.testing.assert_array_equal(np.asarray(made.tokens_BG), tokens)
    np.testing.assert_allclose(np.asarray(made.log_probs_BG), log_probs, atol=1e-4)


def test_what_follows_a_short_prompt_is_not_read():
    step = step_of(PLAIN, "replicated", data=2)
    params, prompts = params_of(step, PLAIN), prompts_of(PLAIN).copy()
    first = step.sample(params, prompts, lengths_B=LENGTHS)
    prompts[np.arange(PROMPT) >= LENGTHS[:, None]] = 0
    np.testing.assert_array_equal(first.tokens_BG, step.sample(params, prompts, lengths_B=LENGTHS).tokens_BG)


@pytest.mark.parametrize(
    ("parameters", "mesh"),
    [
        ("gathered-per-step", {"fsdp": 4}),
        ("tensor-sharded", {"tensor": 4, "data": 2}),
        ("gathered-once", {"fsdp": 2, "tensor": 2}),
    ],
)
def test_a_seed_gives_the_same_tokens_in_every_layout_and_their_own_log_probabilities(parameters, mesh):
    one = step_of(PLAIN, "replicated", data=1, temperature=0.7)
    wanted = one.sample(params_of(one, PLAIN), prompts_of(PLAIN), key=jax.random.key(5))
    step = step_of(PLAIN, parameters, temperature=0.7, **mesh)
    params = params_of(step, PLAIN)
    made = step.sample(params, prompts_of(PLAIN), key=jax.random.key(5))
    np.testing.assert_array_equal(made.tokens_BG, wanted.tokens_BG)
    whole = np.concatenate([prompts_of(PLAIN), np.asarray(made.tokens_BG)], axis=1)
    logits = reference_logits(random_params(PLAIN), jnp.asarray(whole), model=PLAIN)[:, PROMPT - 1 : -1] / 0.7
    expected = np.take_along_axis(jax.nn.log_softmax(logits), whole[:, PROMPT:, None], axis=2)[..., 0]
    np.testing.assert_allclose(np.asarray(made.log_probs_BG), expected, atol=1e-4)
    assert (np.asarray(step.sample(params, prompts_of(PLAIN), key=jax.random.key(6)).tokens_BG) != wanted.tokens_BG).any()


@pytest.mark.parametrize("tensor", [1, 4])
def test_tokens_are_drawn_with_their_probabilities(tensor):
    """100,000 draws from one distribution of 24 tokens, over 1 and 4 shards of it: each frequency within 5 sigma."""
    logits = np.random.default_rng(0).normal(0, 2, (1, 24)).astype(np.float32)
    probabilities, count = np.asarray(jax.nn.softmax(logits[0] / 0.8)), 100_000
    mesh = build_mesh(Strategy(mesh={"tensor": tensor}), jax.devices()[:tensor])
    draws = jax.random.uniform(jax.random.key(1), (count,))

    def draw(logits_UV: Any, draws_U: Any) -> Any:
        return sampled(jnp.broadcast_to(logits_UV, (count, logits_UV.shape[1])), draws_U, temperature=0.8)

    with jax.set_mesh(mesh):
        mapped = jax.shard_map(draw, in_specs=(P(None, TENSOR), P()), out_specs=P(), check_vma=False)
        chosen = jax.jit(mapped)(logits, draws)
    counted = np.bincount(np.asarray(chosen.tokens_U), minlength=24)
    sigma = np.sqrt(count * probabilities * (1 - probabilities))
    assert (np.abs(counted - count * probabilities) < 5 * sigma + 1).all()
    np.testing.assert_allclose(chosen.log_probs_U, np.log(probabilities)[chosen.tokens_U], atol=1e-4)


def test_a_draw_at_the_end_takes_the_last_token_that_has_a_probability():
    logits = jnp.array([[0.0, 1.0, -jnp.inf, -jnp.inf]])
    mesh = build_mesh(Strategy(mesh={}), jax.devices()[:1])
    drawn = jax.shard_map(
        lambda x, u: sampled(x, u, temperature=1.0).tokens_U, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False
    )
    assert int(drawn(logits, jnp.array([1.0]))[0]) == 1
    assert int(drawn(logits, jnp.array([0.0]))[0]) == 0


def test_what_cannot_be_sampled_is_refused_with_the_reason():
    step = step_of(PLAIN, "replicated", data=1, temperature=1.0)
    params = params_of(step, PLAIN)
    with pytest.raises(BadInputError, match="needs a key"):
        step.sample(params, prompts_of(PLAIN))
    with pytest.raises(BadInputError, match=r"prompts of shape \(8, 5\): this rollout takes \(8, 6\)"):
        step.sample(params, prompts_of(PLAIN)[:, :5], key=jax.random.key(0))
    with pytest.raises(BadInputError, match="each from 1 to prompt=6"):
        step.sample(params, prompts_of(PLAIN), key=jax.random.key(0), lengths_B=LENGTHS - 1)


def test_a_donated_cache_is_written_where_it_lies_and_another_is_made_without():
    sizes = {}
    for donate in (True, False):
        step = step_of(PLAIN, "replicated", data=2, donate=donate)
        memory = step.jitted.lower(*step.abstract_arguments()).compile().memory_analysis()
        sizes[donate] = memory.alias_size_in_bytes
    cache = PLAIN.layers * 2 * BATCH * PLAIN.kv_heads * (PROMPT + GENERATE) * PLAIN.head_dim * 4 // 2
    assert cache <= sizes[True] <= cache + 4 * BATCH
    assert sizes[False] == 0


def test_cache_lengths_end_with_what_is_generated():
    assert cache_lengths(256, 1024) == (512, 1024, 1280)
    assert cache_lengths(255, 1) == (256,)
    assert cache_lengths(256, 256) == (512,)


@pytest.mark.parametrize(
    ("parameters", "mesh", "message"),
    [
        ("gathered-once", {"data": 2}, "parameters=gathered-once with fsdp=1: there is nothing to gather"),
        ("replicated", {"fsdp": 2}, "put these devices on data, or use gathered-once"),
        ("replicated", {"tensor": 2}, "that is tensor-sharded"),
        ("tensor-sharded", {"data": 2}, "that is replicated"),
        ("replicated", {"context": 2}, "a decode step has one token per sequence"),
        ("tensor-sharded", {"data": 4, "tensor": 4}, "choose a batch that data x fsdp x tensor divides"),
    ],
)
def test_layouts_that_cannot_run_are_refused_with_the_reason(parameters, mesh, message):
    work = SampleWorkload(prompt=PROMPT, generate=GENERATE, batch=BATCH)
    layout = Sampling(mesh=Mesh(**mesh), parameters=parameters)
    spec = SampleSpec(PLAIN, work, Strategy(mesh=Mesh(**mesh), sampling=layout), "blockwise")
    with pytest.raises(BadInputError) as refused:
        check(spec)
    assert any(message in problem for problem in refused.value.problems)


@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_prefill_in_groups_of_sequences_gives_the_same(monkeypatch, lengths):
    monkeypatch.setattr("strategies.rollout.decode.PREFILL_TOKENS", 2 * PROMPT)
    step = step_of(PLAIN, "gathered-per-step", fsdp=2, tensor=2)  # two groups of two on each rank
    made = step.sample(params_of(step, PLAIN), prompts_of(PLAIN), lengths_B=lengths)
    wanted = greedy_reference(PLAIN)[0][:, PROMPT:] if lengths is None else alone(PLAIN, 0)[0]
    np.testing.assert_array_equal(made.tokens_BG, wanted)
