"""Attention of one token per sequence to the cache on GPU, which reads a layer where it is in the stack.

XLA for GPU copies a layer out of a stack before a product, so that the cache is read, written and read again. This Pallas
kernel takes the whole stack and the number of the layer. Each program attends to one part of the slots of one key/value
head of one sequence; the parts are merged by their largest scores.

Inside ``shard_map``: all lengths are local.
"""

from __future__ import annotations

from functools import partial
from math import sqrt
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Bool, Float, Int

from strategies.rollout.cache import Stack
from strategies.rollout.partial_attention import HIDDEN, Partial

TILE = 64
"""Slots of an iteration: 64 x 128 keys and as many values in bf16 are 32 KiB of an SM's 228 (CUDA C++ Programming Guide)."""
LEAST_ROWS = 16
"""Rows of the smallest product of a tensor core in Triton (``tl.dot``)."""
PROGRAMS = 512
"""Programs that keep a GPU busy: three per SM of an H100 (132), B200 (148) or MI300X (304)."""


def attend_in_place(
    q_BKGH: Float[Array, "B K G H"],
    stack: Stack,
    seen_BS: Bool[Array, "B S"],
    *,
    layer: Int[Array, ""],
    interpret: bool = False,
) -> Partial:
    """Attention to a layer's first S slots."""
    batch, kv_heads, group, head_dim = q_BKGH.shape
    rows = max(LEAST_ROWS, 1 << (group - 1).bit_length())
    q = jnp.pad(q_BKGH.astype(stack.products_dtype), ((0, 0), (0, 0), (0, rows - group), (0, 0)))
    splits = splits_of(batch * kv_heads, seen_BS.shape[1])
    shape = (batch, kv_heads, splits, rows)
    scales = () if stack.key_scales is None else (stack.key_scales, stack.value_scales)
    whole = pl.BlockSpec(memory_space=pl.ANY)
    o, top, sums = pl.pallas_call(
        partial(_kernel, slots=seen_BS.shape[1], splits=splits),
        grid=(batch, kv_heads, splits),
        in_specs=[whole] * (5 + len(scales)),
        out_specs=[
            pl.BlockSpec((None, None, None, rows, head_dim), lambda b, k, s: (b, k, s, 0, 0)),
            *(pl.BlockSpec((None, None, None, rows), lambda b, k, s: (b, k, s, 0)) for _ in range(2)),
        ],
        out_shape=[jax.ShapeDtypeStruct(each, jnp.float32) for each in ((*shape, head_dim), shape, shape)],
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=2),
        interpret=interpret,
    )(layer[None], seen_BS.astype(jnp.int8), q, stack.keys, stack.values, *scales)
    return _merged(Partial(o[..., :group, :], top[..., :group], sums[..., :group]))


def splits_of(heads: int, slots: int) -> int:
    """Parts of the slots, so that there are enough programs and no part is empty.

    >>> splits_of(256, 1280), splits_of(1, 1280), splits_of(1, 10)
    (2, 20, 1)
    """
    return min(-(-PROGRAMS // heads), -(-slots // TILE))


def _kernel(layer_ref: Any, seen_ref: Any, q_ref: Any, *refs: Any, slots: int, splits: int) -> None:
    """Attend to one part of the slots; ``refs`` are keys, values, in fp8 their factors, and the results."""
    key_ref, value_ref, *scales, o_ref, top_ref, sums_ref = refs
    b, k, split = (pl.program_id(axis) for axis in range(3))
    layer, q = layer_ref[0], q_ref[b, k]
    rows, head_dim = q.shape
    tiles = -(-slots // TILE)
    part = -(-tiles // splits)

    def tile(index: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        o, top, sums = carry
        at = pl.ds(index * TILE, TILE)
        inside = index * TILE + jnp.arange(TILE) < slots
        scores = _product(q, _read(key_ref.at[layer, b, k, at, :], inside, q.dtype).T) / sqrt(head_dim)
        if scales:
            scores = scores * _read(scales[0].at[layer, b, k, at], inside, jnp.float32)[None]
        scores = jnp.where((_read(seen_ref.at[b, at], inside, jnp.int32) != 0)[None], scores, HIDDEN)
        above = jnp.maximum(top, scores.max(axis=1))
        weights, kept = jnp.exp(scores - above[:, None]), jnp.exp(top - above)
        sums = sums * kept + weights.sum(axis=1)
        if scales:
            weights = weights * _read(scales[1].at[layer, b, k, at], inside, jnp.float32)[None]
        values = _read(value_ref.at[layer, b, k, at, :], inside, q.dtype)
        return o * kept[:, None] + _product(weights.astype(q.dtype), values), above, sums

    zero = jnp.zeros(rows, jnp.float32)
    empty = jnp.zeros((rows, head_dim), jnp.float32), zero + HIDDEN, zero
    last = jnp.minimum((split + 1) * part, tiles)
    o_ref[...], top_ref[...], sums_ref[...] = lax.fori_loop(split * part, last, tile, empty)


def _read(ref: Any, inside: Bool[Array, " S"], dtype: jnp.dtype) -> Array:
    """A tile of slots in another dtype; zero behind the last slot."""
    inside = inside.reshape(-1, *(1,) * (len(ref.shape) - 1))
    found = triton.load(ref, mask=jnp.broadcast_to(inside, ref.shape)).astype(dtype)
    return jnp.where(inside, found, jnp.zeros((), dtype))


def _product(left: Array, right: Array) -> Array:
    return pl.dot(left, right, allow_tf32=False)


def _merged(parts: Partial) -> Partial:
    """One from the parts of the slots, on axis 2."""
    top = parts.top.max(axis=2)
    kept = jnp.exp(parts.top - top[:, :, None])
    return Partial((parts.o * kept[..., None]).sum(axis=2), top, (parts.sums * kept).sum(axis=2))
