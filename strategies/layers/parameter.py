"""Parameters as a new model starts with: fp32, matrices of the usual spread."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx

INITIAL_STD = 0.02  # Llama's and Qwen's initializer_range


def matrix(rngs: nnx.Rngs, *shape: int) -> nnx.Param:
    """Normal around zero."""
    return nnx.Param(INITIAL_STD * jax.random.normal(rngs.params(), shape, jnp.float32))


def vector(*shape: int, fill: float = 0.0) -> nnx.Param:
    """All of one value."""
    return nnx.Param(jnp.full(shape, fill, jnp.float32))
