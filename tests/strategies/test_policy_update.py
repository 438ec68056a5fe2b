"""The policy update against plain jax.numpy on one device: loss, gradients and log-probabilities in fp32."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from equality import Case, computed, random_params, random_tokens, relative_errors
from flax import nnx
from reference import reference_logits
from stacks import cut

from lcplan import catalog
from lcplan.strategy import Mesh, Strategy
from strategies.inputs.policy import PolicyObjective, PolicyTokens
from strategies.parallel.mesh import build_mesh
from strategies.rl.advantages import group_advantages
from strategies.rl.score_step import build_score
from strategies.schemes.layout import token_order

TINY = catalog.model("qwen3-tiny")
BOUND = 1e-5
CLIP_LOW, CLIP_HIGH, TEMPERATURE = 0.2, 0.28, 0.7
KL = PolicyObjective(clip_low=CLIP_LOW, clip_high=CLIP_HIGH, kl_coefficient=0.1, temperature=TEMPERATURE)


def strategy(mode="manual", microbatches=2, **fields):
    axes = {axis: fields.pop(axis) for axis in Mesh.model_fields if axis in fields}
    dtypes = {"gather_dtype": "fp32", "reduce_dtype": "fp32"}
    return Strategy(
        mesh=Mesh(**axes),
        sharding_mode=mode,
        microbatches=microbatches,
        loss_chunk_tokens=8,
        backend="host",
        **dtypes,
        **fields,
    )


@cache
def whole(model=TINY, batch=8, seq=32):
    """Tokens, targets without the prompt's, and the values of a policy: some ratios are clipped on either side."""
    tokens, targets = random_tokens(model, batch, seq)
    prompt = np.arange(seq) < np.arange(4, 4 + batch)[:, None]
    targets = np.where(prompt, -1, targets).astype(np.int32)
    rng = np.random.default_rng(3)
    near = np.asarray(plain_log_probs(random_params(model), tokens, targets, model))
    noise = rng.normal(0, 0.3, (2, *tokens.shape)).astype(np.float32)
    advantages = np.broadcast_to(rng.normal(0, 1, (batch, 1)), tokens.shape).astype(np.float32)
    return tokens, targets, PolicyTokens(advantages, near + noise[0], near + noise[1])


def plain_log_probs(params, tokens, targets, model, temperature=TEMPERATURE):
    logits = reference_logits(params, tokens, model=model) / temperature
    chosen = jnp.take_along_axis(logits, jnp.maximum(targets, 0)[..., None], axis=-1)[..., 0]
    return jnp.where(targets >= 0, chosen - jax.nn.logsumexp(logits, axis=-1), 0)


def plain_loss(params, kl):
    """The paper's formula, term by term; the mean over all generated tokens."""
    tokens, targets, (advantage, old, reference) = whole()
    log_prob, valid = plain_log_probs(params, tokens, targets, TINY), targets >= 0
    ratio = jnp.exp(log_prob - old)
    gain = jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - CLIP_LOW, 1 + CLIP_HIGH) * advantage)
    divergence = jnp.exp(reference - log_prob) - (reference - log_prob) - 1
    return jnp.where(valid, -gain + kl * divergence, 0).sum() / valid.sum()


@cache
def wanted(kl):
    loss, gradients = jax.jit(jax.value_and_grad(lambda params: plain_loss(params, kl)))(random_params(TINY))
    return float(loss), jax.tree.map(np.asarray, gradients)


def updated(case, objective):
    """Loss and gradients of the update, by the comparison that the train step has."""
    tokens, targets, policy = whole()
    policy = policy if objective.kl_coefficient else policy._replace(reference_log_probs=None)
    return computed(case, objective=objective, given=(tokens, targets, policy))


LAYOUTS = [
    strategy(fsdp=4, tensor=2),
    strategy(data=2, fsdp=2, context=2, scheme="ring-zigzag"),
    strategy(fsdp=2, context=2, tensor=2, scheme="all-gather", remat="save-qkv"),
    strategy(context=4, tensor=2, scheme="ulysses", microbatches=4),
    strategy("auto", fsdp=2, context=2, tensor=2, scheme="ring"),
    strategy("explicit", data=2, fsdp=2, tensor=2),
]
SLOW = [LAYOUTS[1], *LAYOUTS[3:]]


@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[2], *(pytest.param(one, marks=pytest.mark.slow) for one in SLOW)])
def test_loss_and_gradients_equal_one_device(layout):
    loss, gradients = updated(Case(TINY, layout, global_batch=8), KL)
    wanted_loss, wanted_gradients = wanted(KL.kl_coefficient)
    assert loss == pytest.approx(wanted_loss, abs=BOUND)  # tokens' losses of about one cancel
    wrong = {name: error for name, error in relative_errors(gradients, wanted_gradients).items() if not error < BOUND}
    assert not wrong


def test_without_a_kl_term_there_are_no_reference_log_probabilities():
    loss, gradients = updated(Case(TINY, LAYOUTS[0], global_batch=8), replace(KL, kl_coefficient=0.0))
    wanted_loss, wanted_gradients = wanted(0.0)
    assert loss == pytest.approx(wanted_loss, abs=BOUND)  # tokens' losses of about one cancel
    assert max(relative_errors(gradients, wanted_gradients).values()) < BOUND


def test_some_tokens_are_clipped_on_either_side():
    """Else the comparison would not see the clip."""
    tokens, targets, (advantage, old, _) = whole()
    ratio = np.exp(np.asarray(plain_log_probs(random_params(TINY), tokens, targets, TINY)) - old)[targets >= 0]
    positive = advantage[targets >= 0] > 0
    for clipped in (positive & (ratio > 1 + CLIP_HIGH), ~positive & (ratio < 1 - CLIP_LOW)):
        assert 0.05 < clipped.mean() < 0.5


@pytest.mark.parametrize(("layout", "rounded"), [(LAYOUTS[0], False), (LAYOUTS[1], True), (LAYOUTS[3], False)])
def test_scored_log_probabilities_equal_one_device(layout, rounded):
    tokens, targets, _ = whole()
    spec = replace(Case(TINY, layout, global_batch=8).spec(), objective=KL)
    score = build_score(spec, build_mesh(layout, jax.devices()[:8]), rounded=rounded)
    order = token_order(layout, seq_len=32)
    params, where, _ = score.abstract_arguments()
    own = cut(random_params(TINY), nnx.to_pure_dict(params), model=TINY)
    given = jax.device_put(jax.tree.unflatten(jax.tree.structure(params), jax.tree.leaves(own)), score.shardings)
    placed = jax.device_put((tokens[:, order], targets[:, order]), (where.sharding, where.sharding))
    found = np.asarray(score.jitted(score.stored(given), *placed))
    expected = np.asarray(plain_log_probs(random_params(TINY), tokens, targets, TINY))[:, order]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert (found[targets[:, order] < 0] == 0).all()


def test_advantages_are_relative_to_the_group():
    rewards = jnp.array([1.0, 0.0, 0.0, 0.0, 3.0, 3.0, 3.0, 3.0])
    found = np.asarray(group_advantages(rewards, group=4))
    np.testing.assert_allclose(found[:4], (np.array([1, 0, 0, 0]) - 0.25) / np.sqrt(0.1875), rtol=1e-4)
    assert (found[4:] == 0).all()  # a group of equal rewards teaches nothing


def test_the_first_update_after_a_rollout_is_the_policy_gradient():
    """At a ratio of one the slope by the log-probability is minus the advantage, whatever the clip."""
    nll = jnp.array([0.5, 2.0])
    given = PolicyTokens(jnp.array([1.5, -0.5]), -nll)
    loss, slope = PolicyObjective().with_slope(nll, given)
    np.testing.assert_allclose(loss, [-1.5, 0.5])
    np.testing.assert_allclose(slope, [1.5, -0.5])
