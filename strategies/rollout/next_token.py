"""The next token of every sequence from its last hidden row, the vocabulary split over tensor.

Inside ``shard_map``: all lengths are local. R rows of the residual stream, U = R * tensor sequences of a data x fsdp rank.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from strategies.inputs.step_spec import Numerics
from strategies.parallel.collectives import all_gather, gathered_weight
from strategies.parallel.compute_in_place import staged_with
from strategies.parallel.mesh import STATE_AXES, TENSOR


def logits_of(h_RD: Float[Array, "R D"], head_Vd: Float[Array, "V d"], *, numerics: Numerics) -> Float[Array, "U V"]:
    """fp32 logits of this tensor rank's part of the vocabulary, for all sequences of the rank."""
    head_DV = gathered_weight(staged_with(head_Vd, h_RD).T, STATE_AXES, numerics=numerics)
    return jnp.matmul(all_gather(h_RD, TENSOR), head_DV, preferred_element_type=jnp.float32)


def greedy(logits_UV: Float[Array, "U V"]) -> Int[Array, " U"]:
    """The most likely token: the best of each tensor rank, then the best of all; the first among equals."""
    rows = logits_UV.shape[1]
    best_U = logits_UV.argmax(axis=1).astype(jnp.int32)
    if lax.axis_size(TENSOR) == 1:
        return best_U
    values_tU = all_gather(logits_UV.max(axis=1)[None], TENSOR)
    tokens_tU = all_gather(best_U[None] + lax.axis_index(TENSOR) * rows, TENSOR)
    return jnp.take_along_axis(tokens_tU, values_tU.argmax(axis=0)[None], axis=0)[0]
