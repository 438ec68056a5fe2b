"""Gradient accumulation: one microbatch after another, sums in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from strategies.model.batch import Batch


def accumulate(function: Callable[[Batch], Any], parts: Batch, *, wide: bool = True) -> Any:
    """Sum ``function`` over the leading dim of ``parts``, in fp32 or in its own dtypes; sharded gradients add up in place."""
    first = jax.tree.map(lambda x: x[0], parts)
    if jax.tree.leaves(parts)[0].shape[0] == 1:
        return function(first)

    def start(x: jax.ShapeDtypeStruct) -> jax.Array:
        return jnp.zeros(x.shape, jnp.float32 if wide and jnp.issubdtype(x.dtype, jnp.floating) else x.dtype)

    zero = jax.tree.map(start, jax.eval_shape(function, first))
    return lax.scan(lambda total, part: (jax.tree.map(jnp.add, total, function(part)), None), zero, parts)[0]
