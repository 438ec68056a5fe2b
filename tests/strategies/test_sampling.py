"""Decoding with the cache gives the logits of the full forward pass, in fp32, for every layout and mixture of axes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from equality import random_params
from reference import reference_logits
from test_step_equality import PLAIN, RICH

from lcplan.formats.errors import BadInputError
from lcplan.spec.model import ModelSpec
from lcplan.spec.rollout_workloads import SampleWorkload
from lcplan.strategy import Mesh, Sampling, Strategy
from strategies.parallel.mesh import build_mesh
from strategies.rollout.limits import check
from strategies.rollout.sample_spec import SampleSpec, cache_lengths
from strategies.rollout.step import SampleStep, build_step

PROMPT, GENERATE, BATCH = 6, 7, 8


def step_of(model: ModelSpec, parameters: str, layout: str = "whole", *, donate: bool = True, **mesh: int) -> SampleStep:
    sizes = Mesh(**mesh)
    work = SampleWorkload(prompt=PROMPT, generate=GENERATE, batch=BATCH, precision="fp32", kv_dtype="fp32", donate=donate)
    sampling = Sampling(mesh=sizes, parameters=parameters, cache=layout)
    strategy = Strategy(mesh=sizes, gather_dtype="fp32", sampling=sampling)
    return build_step(SampleSpec(model, work, strategy, "blockwise"), build_mesh(strategy, jax.devices()[: sizes.devices]))


@dataclass(frozen=True)
class Given:
    """Parameters as the layout has them, prompts, an empty cache."""

    params: Any
    prompts: Any
    cache: Any

    @classmethod
    def to(cls, step: SampleStep, model: ModelSpec) -> Given:
        shapes, cache, _, _ = step.abstract_arguments()
        flat = jax.tree.unflatten(jax.tree.structure(shapes), jax.tree.leaves(random_params(model)))
        params = jax.device_put(flat, step.shardings)
        return cls(params, prompts_of(model), jax.device_put(jnp.zeros(cache.shape, cache.dtype), cache.sharding))


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
    (PLAIN, "gathered-once", {"fsdp": 2, "tensor": 4}),
    (PLAIN, "tensor-sharded", {"tensor": 4, "data": 2}),
    (RICH, "tensor-sharded", {"tensor": 4, "data": 2}),  # two tensor ranks share a KV head
    (RICH, "gathered-per-step", {"tensor": 4, "fsdp": 2}),
]


@pytest.mark.parametrize(("model", "parameters", "mesh"), LAYOUTS, ids=lambda value: getattr(value, "name", str(value)))
def test_prefill_and_decode_give_the_logits_of_the_full_forward_pass(model, parameters, mesh):
    step = step_of(model, parameters, **mesh)
    given = Given.to(step, model)
    tokens, wanted = greedy_reference(model)
    cache, logits = step.prefill(given.params, given.cache, given.prompts)
    for number in range(GENERATE):
        np.testing.assert_allclose(np.asarray(logits), wanted[number], rtol=2e-4, atol=2e-4 * np.abs(wanted[number]).max())
        if number + 1 < GENERATE:
            cache, logits = step.decode(given.params, cache, tokens[:, PROMPT + number], jnp.int32(PROMPT + number))


@pytest.mark.parametrize(
    ("parameters", "layout", "mesh"),
    [
        ("gathered-per-step", "whole", {"fsdp": 4}),
        ("tensor-sharded", "whole", {"tensor": 4}),
        ("gathered-once", "whole", {"fsdp": 4}),
        ("gathered-once", "power-of-two", {"fsdp": 2, "tensor": 2}),
    ],
)
def test_the_compiled_program_chooses_the_tokens_of_greedy_search(parameters, layout, mesh):
    step = step_of(PLAIN, parameters, layout, **mesh)
    given = Given.to(step, PLAIN)
    tokens, _ = greedy_reference(PLAIN)
    filled, _ = step.prefill(given.params, given.cache, given.prompts)
    shardings = tuple(argument.sharding for argument in step.abstract_arguments()[2:])
    first, position = jax.device_put((tokens[:, PROMPT], np.int32(PROMPT)), shardings)
    _, made = step.jitted(given.params, filled, first, position)
    wanted = tokens[:, PROMPT:] if parameters == "gathered-once" else tokens[:, PROMPT + 1]
    np.testing.assert_array_equal(np.asarray(made), wanted)


def test_a_donated_cache_is_written_where_it_lies_and_another_is_made_without():
    sizes = {}
    for donate in (True, False):
        step = step_of(PLAIN, "replicated", data=2, donate=donate)
        memory = step.jitted.lower(*step.abstract_arguments()).compile().memory_analysis()
        sizes[donate] = memory.alias_size_in_bytes
    cache = PLAIN.layers * 2 * BATCH * PLAIN.kv_heads * (PROMPT + GENERATE) * PLAIN.head_dim * 4 // 2
    assert sizes == {True: cache, False: 0}


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


def test_prefill_in_groups_of_sequences_gives_the_same(monkeypatch):
    monkeypatch.setattr("strategies.rollout.decode.PREFILL_TOKENS", 2 * PROMPT)
    step = step_of(PLAIN, "gathered-per-step", fsdp=2, tensor=2)  # two groups of two on each rank
    given = Given.to(step, PLAIN)
    tokens, wanted = greedy_reference(PLAIN)
    cache, logits = step.prefill(given.params, given.cache, given.prompts)
    np.testing.assert_allclose(np.asarray(logits), wanted[0], rtol=2e-4, atol=2e-4 * np.abs(wanted[0]).max())
    _, logits = step.decode(given.params, cache, tokens[:, PROMPT], jnp.int32(PROMPT))
    np.testing.assert_allclose(np.asarray(logits), wanted[1], rtol=2e-4, atol=2e-4 * np.abs(wanted[1]).max())
