"""The KV cache: one array L 2 B K S H, so that a decode step writes one token's keys and values and reads a layer in place.

Inside ``shard_map``: all lengths are local. B sequences of this device, K key/value heads of this tensor rank, S positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import jax.numpy as jnp
from jax import lax
from jax.experimental.layout import Layout, with_layout_constraint
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from strategies.parallel.mesh import BATCH_AXES, TENSOR

CACHE = P(None, None, BATCH_AXES, TENSOR)
"""``L 2 B/(data, fsdp) K/tensor S H``."""

Cache = Float[Array, "L 2 B K S H"]


@dataclass(frozen=True)
class Place:
    """A position in the cache to write to: the layer, the first sequence and the first position."""

    layer: Int[Array, ""]
    sequence: Int[Array, ""] | int
    position: Int[Array, ""] | int


def write(cache: Cache, kv: Float[Array, "2 b T K H"], place: Place) -> Cache:
    """The cache with keys and values of T tokens of b sequences of one layer."""
    rows = kv.astype(cache.dtype).swapaxes(2, 3)[None]
    if kv.shape[2] > 1:  # XLA for GPU gives the whole cache the layout of untransposed rows, and copies it before and after
        rows = with_layout_constraint(rows, Layout(major_to_minor=tuple(range(rows.ndim))))
    return lax.dynamic_update_slice(cache, rows, (place.layer, 0, place.sequence, 0, place.position, 0))


def attend_to_cache(
    q: Float[Array, "B 1 N H"], cache: Cache, *, layer: Int[Array, ""], position: Int[Array, ""], length: int
) -> Float[Array, "B 1 N H"]:
    """Attention of one new token to the positions 0..position, of the first ``length`` of the cache; scores are fp32."""
    _, _, batch, kv_heads, _, head_dim = cache.shape
    # Slice keys and values together: XLA for TPU copies the whole cache if they are sliced separately.
    size = (1, 2, batch, kv_heads, length, head_dim)
    key, value = lax.dynamic_slice(cache, (layer, 0, 0, 0, 0, 0), size)[0]
    q_BKGH = q.reshape(batch, kv_heads, -1, head_dim).astype(cache.dtype)
    scores = jnp.einsum("BKGH,BKSH->BKGS", q_BKGH, key, preferred_element_type=jnp.float32) / sqrt(head_dim)
    scores = jnp.where(jnp.arange(length) <= position, scores, -jnp.inf)
    weights = jnp.exp(scores - scores.max(axis=-1, keepdims=True))
    sums = weights.sum(axis=-1, keepdims=True)
    o = jnp.einsum("BKGS,BKSH->BKGH", weights.astype(cache.dtype), value, preferred_element_type=jnp.float32) / sums
    return o.reshape(q.shape).astype(q.dtype)
