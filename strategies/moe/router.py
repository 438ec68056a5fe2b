"""The router: the experts of each token, and their weights.

Inside ``shard_map``: all lengths are local. U tokens of the context rank, whole on every tensor rank; all E experts.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from lcplan.spec.experts import Experts
from strategies.parallel.custom_gradients import with_backward
from strategies.parallel.linear import Collect


class Choice(NamedTuple):
    """The router's choice for each token: k experts and their weights."""

    experts_Uk: Int[Array, "U k"]
    weights_Uk: Float[Array, "U k"]


def choose(h_UD: Float[Array, "U D"], shard: Float[Array, "d E"], *, experts: Experts, how: Collect) -> Choice:
    """Scores of all experts in fp32, the k best of the best groups, scaled to sum to one where the model does that."""
    logits_UE = _logits(h_UD, shard, how=how)
    scores_UE = jax.nn.softmax(logits_UE, axis=-1) if experts.scores == "softmax" else jax.nn.sigmoid(logits_UE)
    weights_Uk, experts_Uk = lax.top_k(_of_best_groups(scores_UE, experts), experts.active)
    if experts.normalized:
        weights_Uk = weights_Uk / weights_Uk.sum(axis=-1, keepdims=True)
    return Choice(experts_Uk, weights_Uk if experts.scale == 1.0 else experts.scale * weights_Uk)


def _of_best_groups(scores_UE: Float[Array, "U E"], experts: Experts) -> Float[Array, "U E"]:
    """Scores of experts in each token's best groups; below all others in the rest."""
    if experts.groups == experts.groups_chosen:
        return scores_UE
    grouped = scores_UE.reshape(scores_UE.shape[0], experts.groups, -1)
    best = lax.top_k(lax.stop_gradient(grouped), experts.group_best)[0].sum(axis=-1)
    chosen = jax.nn.one_hot(lax.top_k(best, experts.groups_chosen)[1], experts.groups, dtype=jnp.bool_).any(axis=1)
    return jnp.where(chosen[..., None], grouped, -jnp.inf).reshape(scores_UE.shape)


def _logits(h_UD: Float[Array, "U D"], shard: Float[Array, "d E"], *, how: Collect) -> Float[Array, "U E"]:
    """Summed and returned in fp32. Each tensor rank's gradient is a share, so the matrix's is scattered over tensor too."""
    return with_backward(partial(_forward, how=how), partial(_backward, how=how))(h_UD, shard)


def _forward(h_UD: Array, shard: Array, *, how: Collect) -> tuple[Array, Any]:
    weight_DE = how.collect(shard)
    return jnp.matmul(h_UD, weight_DE, preferred_element_type=jnp.float32), (h_UD, weight_DE)


def _backward(residuals: Any, dlogits_UE: Float[Array, "U E"], *, how: Collect) -> tuple[Array, Array]:
    h_UD, weight_DE = residuals
    dlogits_UE = dlogits_UE.astype(how.numerics.compute)
    dweight_DE = jnp.matmul(h_UD.T, dlogits_UE, preferred_element_type=how.numerics.reduce)
    return dlogits_UE @ weight_DE.T, how.distribute(dweight_DE)
