"""The next token of every sequence and its log-probability, the vocabulary split over tensor.

Inside ``shard_map``: all lengths are local. R rows of the residual stream, U = R * tensor sequences of a data x fsdp rank, V
rows of the vocabulary on this tensor rank. No tensor rank sees the logits of another: they exchange the largest logit of each
sequence, sums of blocks of the vocabulary, and the token.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from strategies.inputs.step_spec import Numerics
from strategies.parallel.collectives import all_gather, gathered_weight
from strategies.parallel.compute_in_place import staged_with
from strategies.parallel.mesh import BATCH_AXES, STATE_AXES, TENSOR
from strategies.parallel.ranks import axis_index, axis_size

MOST_BLOCK = 256
"""Most tokens of a block: its sum is exchanged, so that more and smaller blocks send more."""


class Chosen(NamedTuple):
    """The next token of every sequence."""

    tokens_U: Int[Array, " U"]
    log_probs_U: Float[Array, " U"]
    """fp32 log-probability of the token: of ``softmax(logits / temperature)``, or of ``softmax(logits)`` at temperature 0."""


def logits_of(h_RD: Float[Array, "R D"], head_Vd: Float[Array, "V d"], *, numerics: Numerics) -> Float[Array, "U V"]:
    """fp32 logits of this tensor rank's part of the vocabulary, for all sequences of the rank."""
    head_DV = gathered_weight(staged_with(head_Vd, h_RD).T, STATE_AXES, numerics=numerics)
    return jnp.matmul(all_gather(h_RD, TENSOR), head_DV, preferred_element_type=jnp.float32)


def greedy(logits_UV: Float[Array, "U V"]) -> Chosen:
    """The most likely token, the first among equals."""
    best_U = logits_UV.argmax(axis=1).astype(jnp.int32) + axis_index(TENSOR) * logits_UV.shape[1]
    values_tU = all_gather(logits_UV.max(axis=1)[None], TENSOR)
    top_U = values_tU.max(axis=0)
    sums_tU = all_gather(jnp.exp(logits_UV - top_U[:, None]).sum(axis=1)[None], TENSOR)
    tokens_tU = all_gather(best_U[None], TENSOR)
    tokens_U = jnp.take_along_axis(tokens_tU, values_tU.argmax(axis=0)[None], axis=0)[0]
    return Chosen(tokens_U, -jnp.log(sums_tU.sum(axis=0)))


def sampled(logits_UV: Float[Array, "U V"], draws_U: Float[Array, " U"], *, temperature: float) -> Chosen:
    """The token at which the sum of probabilities, in the order of the vocabulary, passes a draw from [0, 1).

    One draw for each sequence, not one for each token and sequence as Gumbel noise would need. Equal logits and draws give the
    same token however the vocabulary is split.
    """
    scaled_UV = logits_UV / temperature
    top_U = all_gather(scaled_UV.max(axis=1)[None], TENSOR).max(axis=0)
    blocks_UbV = scaled_UV.reshape(scaled_UV.shape[0], -1, _block(scaled_UV.shape[1]))
    own = blocks_UbV.shape[1]
    sums_bU = all_gather(jnp.exp(blocks_UbV - top_U[:, None, None]).sum(axis=2).T, TENSOR)
    below_bU = jnp.cumsum(sums_bU, axis=0)
    total_U = below_bU[-1]
    block_U = _passed(below_bU, sums_bU, draws_U * total_U)
    before_U = jnp.take_along_axis(below_bU - sums_bU, block_U[None], axis=0)[0]
    mine_U = jnp.clip(block_U - axis_index(TENSOR) * own, 0, own - 1)
    inside_Ub = jnp.take_along_axis(blocks_UbV, mine_U[:, None, None], axis=1)[:, 0]
    weights_bU = jnp.exp(inside_Ub - top_U[:, None]).T
    place_U = _passed(jnp.cumsum(weights_bU, axis=0), weights_bU, draws_U * total_U - before_U)
    token_U = mine_U * inside_Ub.shape[1] + place_U + axis_index(TENSOR) * logits_UV.shape[1]
    value_U = jnp.take_along_axis(inside_Ub, place_U[:, None], axis=1)[:, 0]
    rank_U = (block_U // own)[None]
    token_U = jnp.take_along_axis(all_gather(token_U[None], TENSOR), rank_U, axis=0)[0]
    value_U = jnp.take_along_axis(all_gather(value_U[None], TENSOR), rank_U, axis=0)[0]
    return Chosen(token_U.astype(jnp.int32), value_U - top_U - jnp.log(total_U))


def _block(rows: int) -> int:
    """Tokens of a block: the largest divisor of a rank's vocabulary that is at most ``MOST_BLOCK``."""
    return max(size for size in range(1, MOST_BLOCK + 1) if rows % size == 0)


def _passed(below_nU: Float[Array, "n U"], each_nU: Float[Array, "n U"], target_U: Float[Array, " U"]) -> Int[Array, " U"]:
    """The first part at which the sum passes the target; if rounding passes over all, the last that is not zero."""
    passed_nU = (below_nU > target_U) & (each_nU > 0)
    last_U = each_nU.shape[0] - 1 - (each_nU[::-1] > 0).argmax(axis=0)
    return jnp.where(passed_nU.any(axis=0), passed_nU.argmax(axis=0), last_U)


def draws(key: Array, position: Int[Array, ""], *, own: int) -> Float[Array, " U"]:
    """A draw from [0, 1) for each sequence of this rank, by its number among all sequences and by the position."""
    ranks, rank = 1, jnp.int32(0)
    for axis in BATCH_AXES:
        ranks, rank = ranks * axis_size(axis), rank * axis_size(axis) + axis_index(axis)
    all_B = jax.random.uniform(jax.random.fold_in(key, position), (ranks * own,))
    return lax.dynamic_slice_in_dim(all_B, rank * own, own)
