"""Tiles of a chunk's score matrix: which of them the masks leave, and their scores.

``i`` counts blocks of queries and ``j`` blocks of keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from strategies.kernels.interface import Mask, Segments

MASKED = -1e30  # finite: where a whole row of a block is masked, exp(-inf + inf) would be nan

Span = tuple[Array | int, Array | int]
"""The first block, and one past the last."""


@dataclass(frozen=True)
class Tiles:
    """Sizes of the query and key blocks, and which tiles of the score matrix the masks leave."""

    query: int
    key: int
    mask: Mask
    segments: Segments | None = None
    window: int | None = None
    """Keys up to its own that a query sees under a causal mask; None: all."""
    before: int = 0
    """Keys before the first query's own."""

    def queries(self, x: Float[Array, "B T N H"], heads: int) -> Float[Array, "i B t K G H"]:
        """Query blocks, outermost; the heads by the KV head that they attend to."""
        B, T, N, H = x.shape
        return jnp.moveaxis(x.reshape(B, T // self.query, self.query, heads, N // heads, H), 1, 0)

    def keys(self, kv: Float[Array, "2 B S K H"], j: Array) -> Float[Array, "2 B s K H"]:
        """Key block j and its values."""
        return lax.dynamic_slice_in_dim(kv, j * self.key, self.key, axis=2)

    def scores(
        self, q: Float[Array, "B t K G H"], key: Float[Array, "B s K H"], *, at: tuple[Array, Array]
    ) -> Float[Array, "B K G t s"]:
        """Scaled and masked scores of the tile ``at`` (i, j), fp32."""
        scores = dot("btkgh,bskh->bkgts", q, key) / sqrt(q.shape[-1])
        if self.segments is not None:
            q_ids, kv_ids = (
                lax.dynamic_slice_in_dim(ids, index * size, size, axis=1)
                for ids, index, size in zip(self.segments, at, (self.query, self.key), strict=True)
            )
            scores = jnp.where((q_ids[:, :, None] == kv_ids[:, None])[:, None, None], scores, MASKED)
        if self.mask == "full":
            return scores
        query_index = self.before + at[0] * self.query + jnp.arange(self.query)
        key_index = at[1] * self.key + jnp.arange(self.key)
        seen = query_index[:, None] >= key_index
        if self.window is not None:
            seen &= query_index[:, None] - key_index < self.window
        return jnp.where(seen, scores, MASKED)

    def keys_seen(self, i: Array, keys: int) -> Span:
        """Key blocks that query block i attends to, of ``keys`` tokens."""
        if self.mask == "full":
            return self._shared((0, keys // self.key), "queries", i)
        first = self.before + i * self.query
        start = 0 if self.window is None else jnp.maximum(first - self.window + 1, 0) // self.key
        return self._shared((start, (first + self.query - 1) // self.key + 1), "queries", i)

    def queries_seen(self, j: Array, blocks: int) -> Span:
        """Query blocks of ``blocks`` that attend to key block j."""
        if self.mask == "full":
            return self._shared((0, blocks), "keys", j)
        start = jnp.maximum(j * self.key - self.before, 0) // self.query
        if self.window is None:
            return self._shared((start, blocks), "keys", j)
        last = (j + 1) * self.key - 1 + self.window - 1 - self.before  # the last query that sees the block's last key
        return self._shared((start, jnp.clip(last // self.query + 1, 0, blocks)), "keys", j)

    def _shared(self, span: Span, whose: str, index: Array) -> Span:
        """Clip ``span`` to the blocks from the first to the last that share a document with block ``index``."""
        if self.segments is None:
            return span
        together = self._together(self.segments)
        shared = together[index] if whose == "queries" else together[:, index]
        first, last = jnp.argmax(shared), len(shared) - jnp.argmax(shared[::-1])
        return jnp.maximum(span[0], first), jnp.where(shared.any(), jnp.minimum(span[1], last), 0)

    def _together(self, segments: Segments) -> Bool[Array, "i j"]:
        """Tiles whose queries and keys may share a document, in any sequence."""
        queries, keys = (
            ids.reshape(ids.shape[0], -1, size) for ids, size in zip(segments, (self.query, self.key), strict=True)
        )
        return may_share(queries[:, :, None], keys[:, None]).any(axis=0)


def may_share(queries: Int[Array, "... t"], keys: Int[Array, "... s"]) -> Bool[Array, "..."]:
    """Whether the ranges of two blocks' ids meet: where documents are in order, whether the blocks share one."""
    return (queries.min(-1) <= keys.max(-1)) & (queries.max(-1) >= keys.min(-1))


def dot(equation: str, *operands: Array) -> Array:
    """einsum with an fp32 sum."""
    return jnp.einsum(equation, *operands, preferred_element_type=jnp.float32)
