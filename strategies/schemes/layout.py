"""Which tokens of a sequence each context rank holds.

* contiguous: rank r of c holds chunk r. A causal mask leaves ranks before r visible whole and those after r not at all.
* zigzag: rank r holds half chunks r and 2c-1-r of 2c, in this order. To a rank before r, all its queries see the first half
  of the keys; to a rank after r, its second half of queries sees all keys: half of the full area either way, equal work.
* groups of u neighbours that exchange heads: a group holds the tokens of one rank of a zigzag of c/u, each of its ranks the
  u-th part of them, in order, so that an exchange makes the group's two half chunks whole.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from lcplan.strategy import SCHEME_FACTS, Strategy
from strategies.parallel.mesh import CONTEXT
from strategies.parallel.ranks import axis_index


def zigzag(strategy: Strategy) -> bool:
    """Whether ranks, or groups of them, hold two half chunks each: balanced schemes, where there are several chunks."""
    return SCHEME_FACTS[strategy.scheme].balanced and strategy.mesh.context // strategy.ulysses > 1


def token_order(strategy: Strategy, *, seq_len: int) -> np.ndarray:
    """Token indices in the order in which ranks hold them: rank r has the r-th of ``context`` equal parts."""
    chunks = strategy.mesh.context // strategy.ulysses
    if not zigzag(strategy):
        return np.arange(seq_len)
    halves = np.arange(seq_len).reshape(2 * chunks, -1)
    return np.stack([halves[:chunks], halves[: chunks - 1 : -1]], axis=1).reshape(-1)


def local_positions(strategy: Strategy, length: int) -> Int[Array, " T"]:
    """Positions of this rank's ``length`` tokens. Inside ``shard_map``."""
    return _positions(strategy, length, rank=axis_index(CONTEXT))


def global_positions(strategy: Strategy, seq_len: int) -> Int[Array, " T"]:
    """Positions of all tokens in the order in which ranks hold them: ``token_order``, computed where it is needed."""
    context = strategy.mesh.context
    chunk = partial(_positions, strategy, seq_len // context)
    return jax.vmap(lambda rank: chunk(rank=rank))(jnp.arange(context)).reshape(-1)


def _positions(strategy: Strategy, length: int, *, rank: Int[Array, ""]) -> Int[Array, " T"]:
    group, member = rank // strategy.ulysses, rank % strategy.ulysses
    chunks, half = strategy.mesh.context // strategy.ulysses, length * strategy.ulysses // 2
    if not zigzag(strategy):
        return rank * length + jnp.arange(length)
    place = member * length + jnp.arange(length)  # in the group's two half chunks
    return jnp.where(place < half, group * half + place, (2 * chunks - 1 - group) * half + place - half)
