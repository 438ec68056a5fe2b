"""Moments in 8 bits: blocks of elements that share one fp32 scale, each element the square root of its share of it.

The square root spans the squares of gradients, whose range is wide: of int8's 127 steps the smallest is 1 / 16129 of a block's
largest element. An element that is not zero never becomes zero, so that no update divides by nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lcplan.strategy.state_knobs import BLOCK

_LARGEST = {"int8": 127.0, "fp8": 448.0}
_SMALLEST = {"int8": 1.0, "fp8": 2.0**-9}  # of e4m3, with its subnormals
_DTYPES = {"int8": jnp.dtype("int8"), "fp8": jnp.dtype("float8_e4m3fn")}


class Blocks(NamedTuple):
    """An array in blocks of its last dim."""

    codes: Array
    """The array's shape, in 8 bits."""
    scales: Float[Array, "... blocks"]
    """The largest absolute value of each block."""


def block_of(length: int, pieces: int) -> int:
    """The largest power of two up to ``BLOCK`` that divides each of ``pieces`` equal pieces of ``length`` elements.

    >>> block_of(14336, 8), block_of(80, 1), block_of(10, 4)
    (256, 16, 1)
    """
    each = length // pieces if length % pieces == 0 else 1
    return min(each & -each, BLOCK)


def encode(x: Float[Array, "... n"], kind: str, *, pieces: int) -> Blocks:
    """Return ``x`` in 8 bits; ``pieces`` are the shards of its last dim, which no block crosses."""
    block = block_of(x.shape[-1], pieces)
    parts = x.astype(jnp.float32).reshape(*x.shape[:-1], -1, block)
    scales = jnp.abs(parts).max(axis=-1)
    share = jnp.sqrt(jnp.abs(parts) / jnp.where(scales > 0, scales, 1.0)[..., None])
    size = jnp.maximum(_LARGEST[kind] * share, _SMALLEST[kind])
    signed = jnp.sign(parts) * (jnp.round(size) if kind == "int8" else size)
    return Blocks(signed.astype(_DTYPES[kind]).reshape(x.shape), scales)


def decode(stored: Blocks) -> Float[Array, "... n"]:
    """Return the array in fp32."""
    codes, scales = stored
    largest = _LARGEST["int8" if codes.dtype == jnp.int8 else "fp8"]
    parts = codes.astype(jnp.float32).reshape(*scales.shape, -1) / largest
    return (jnp.sign(parts) * parts * parts * scales[..., None]).reshape(codes.shape)


def is_blocks(x: object) -> bool:
    """Whether a node of a state is an array in blocks."""
    return isinstance(x, Blocks)


def widened(state: object) -> object:
    """Return a state with every array of floats in fp32."""

    def wide(x: object) -> object:
        if isinstance(x, Blocks):
            return decode(x)
        return x.astype(jnp.float32) if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jnp.floating) else x

    return jax.tree.map(wide, state, is_leaf=is_blocks)
