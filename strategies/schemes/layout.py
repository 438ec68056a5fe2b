"""Which tokens of a sequence each context rank holds.

* contiguous: rank r of c holds chunk r. A causal mask leaves ranks before r visible whole and those after r not at all.
* zigzag: rank r holds half chunks r and 2c-1-r of 2c, in this order. To a rank before r, all its queries see the first half
  of the keys; to a rank after r, its second half of queries sees all keys: half of the full area either way, equal work.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int

from lcplan.strategy import Scheme
from strategies.mesh import CONTEXT

ZIGZAG_SCHEMES: frozenset[Scheme] = frozenset({"ring-zigzag", "all-gather"})
"""The all-gather scheme takes zigzag too: it makes the same kernel calls, so it has the same balance."""


def token_order(scheme: Scheme, *, seq_len: int, context: int) -> np.ndarray:
    """Token indices in the order in which ranks hold them: rank r has the r-th of ``context`` equal parts."""
    if scheme not in ZIGZAG_SCHEMES or context == 1:
        return np.arange(seq_len)
    halves = np.arange(seq_len).reshape(2 * context, -1)
    return np.stack([halves[:context], halves[: context - 1 : -1]], axis=1).reshape(-1)


def local_positions(scheme: Scheme, length: int) -> Int[Array, " T"]:
    """Positions of this rank's ``length`` tokens. Inside ``shard_map``."""
    return _positions(scheme, length, rank=lax.axis_index(CONTEXT), ranks=lax.axis_size(CONTEXT))


def global_positions(scheme: Scheme, seq_len: int, *, context: int) -> Int[Array, " T"]:
    """Positions of all tokens in the order in which ranks hold them: ``token_order``, computed where it is needed."""
    chunk = partial(_positions, scheme, seq_len // context, ranks=context)
    return jax.vmap(lambda rank: chunk(rank=rank))(jnp.arange(context)).reshape(-1)


def _positions(scheme: Scheme, length: int, *, rank: Int[Array, ""], ranks: int) -> Int[Array, " T"]:
    if scheme not in ZIGZAG_SCHEMES or ranks == 1:
        return rank * length + jnp.arange(length)
    half = length // 2
    run = jnp.arange(half)
    return jnp.concatenate([rank * half + run, (2 * ranks - 1 - rank) * half + run])
