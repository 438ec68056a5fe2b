"""The norm and the activations of a layer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "silu": jax.nn.silu,
    "gelu": partial(jax.nn.gelu, approximate=False),
    "gelu_tanh": partial(jax.nn.gelu, approximate=True),
    "relu": jax.nn.relu,
}


def rms_norm(x: Float[Array, "... D"], weight: Float[Array, " D"], *, eps: float) -> Float[Array, "... D"]:
    """Root-mean-square norm over the last dim, in fp32; returned in the dtype of ``x``."""
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + eps) * weight).astype(x.dtype)
