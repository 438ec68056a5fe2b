"""Stand-ins for collectives on a single rank: local copies of the same shapes, which no compiler removes.

Values are not those of a real step, but they are finite, and shapes, dtypes and buffers are.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Shaped


def gathered(x: Shaped[Array, "n ..."], members: int) -> Shaped[Array, "N ..."]:
    """An all-gather: this rank's part as often as there are members."""
    if members == 1:
        return x
    return lax.optimization_barrier(jnp.tile(x, (members, *(1,) * (x.ndim - 1))))


def scattered(x: Float[Array, "N ..."], members: int) -> Float[Array, "n ..."]:
    """A reduce-scatter: the sum of all parts, so that every part is made."""
    if members == 1:
        return x
    return lax.optimization_barrier(x).reshape(members, -1, *x.shape[1:]).sum(axis=0)


def moved(x: Shaped[Array, ...]) -> Shaped[Array, ...]:
    """A permute or an all-to-all: the same elements in other places."""
    return lax.optimization_barrier(jnp.roll(x, 1, axis=0 if x.ndim < 3 else x.ndim - 3))
