"""Barriers that keep jax and XLA from hoisting work out of a loop."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Shaped


def staged_with(x: Shaped[Array, ...], anchor: Shaped[Array, ...]) -> Shaped[Array, ...]:
    """``x``, as if it depended on ``anchor``: it stays in the loop that makes ``anchor``. No operation in the executable.

    * When the scan over layers is differentiated, jax hoists out of it whatever depends on no layer input. Of a loop inside
      the layer it hoists a loop that stacks such values for every iteration: the zeros of each hop's skipped branch
      were 0.9 GB in a step of Llama 3 8B at 16 x 16384 tokens.
    * XLA hoists the gather of an embedding table out of the loop over microbatches, where the whole table then stays.
    """
    return lax.optimization_barrier((x, anchor))[0]


def zero_after(anchor: Float[Array, "..."]) -> Float[Array, ""]:
    """A zero that does not exist before ``anchor`` does, so that neither does a buffer filled with it.

    XLA has no other word for it: a constant buffer may be filled as early as its scheduler likes, and the whole table of zeros
    that an embedding's gradient starts from was filled before the layers' backward pass. Not a zero if ``anchor`` begins with
    an infinity or a NaN, but then the gradient is lost anyway.
    """
    first = anchor.reshape(-1)[0]
    return first - first


def zeros_after(anchor: Float[Array, "..."], *, shape: tuple[int, ...], dtype: jnp.dtype) -> Float[Array, "..."]:
    """A buffer of zeros, for a loop or an exchange to fill, that does not exist before ``anchor`` does (``zero_after``).

    XLA for GPU (jax 0.10.1) makes constant zeros of one shape in one fusion, wherever in a loop iteration they are needed. All
    expert buffers of an iteration were alive from its first layer on (8 of 2 GiB in an iteration of two layers of
    Qwen3-30B-A3B, 32768 tokens per device), and those of the layer peeled off the backward loop before the forward pass.
    """
    return jnp.broadcast_to(zero_after(anchor).astype(dtype), shape)
