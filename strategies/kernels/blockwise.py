"""Blockwise attention in plain JAX: the reference kernel, and the kernel of devices without a fused one.

Scores exist for one block of queries by one block of keys at a time; sums are fp32. With a causal mask, blocks above the
diagonal are not visited; with documents, nor are blocks of keys before the first or after the last that shares one with the
queries. Any device, any dtype. Below, ``i`` counts query blocks and ``j`` key blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from lcplan.strategy import ATTENTION_BLOCK
from lcplan.strategy.tile_sizes import block_size
from strategies.kernels.interface import Attended, Gradients, Mask, Segments
from strategies.kernels.tiles import MASKED, Tiles, dot
from strategies.parallel.compute_in_place import staged_with


@dataclass(frozen=True)
class BlockwiseKernel:
    """Largest block sizes in tokens; a chunk that they do not divide takes its largest divisors below them."""

    query_block: int = ATTENTION_BLOCK
    key_block: int = 2 * ATTENTION_BLOCK
    window: int | None = None
    """Keys up to its own that a query sees under a causal mask; blocks out of every query's window are not visited."""

    def forward(
        self, q: Float[Array, "B T N H"], kv: Float[Array, "2 B S K H"], *, mask: Mask, segments: Segments | None = None
    ) -> Attended:
        """Online softmax: the key blocks of one query block after another."""
        B, T, N, H = q.shape
        tiles = self._tiles(T, kv.shape[2], mask=mask, segments=segments)
        heads, zero = kv.shape[3], staged_with(jnp.zeros((), jnp.float32), q)

        def query_block(_: None, operands: Any) -> Any:
            i, q_BtKGH = operands

            def key_block(j: Any, carry: Any) -> Any:
                o, total, largest = carry
                key, value = tiles.keys(kv, j)
                scores = tiles.scores(q_BtKGH, key, at=(i, j))
                new = jnp.maximum(largest, scores.max(-1))
                weights, kept = jnp.exp(scores - new[..., None]), jnp.exp(largest - new)
                o = o * kept[..., None] + dot("bkgts,bskh->bkgth", weights.astype(q.dtype), value)
                return o, total * kept + weights.sum(-1), new

            shape = (B, heads, N // heads, tiles.query)
            start = jnp.broadcast_to(zero, (*shape, H)), jnp.broadcast_to(zero, shape), jnp.broadcast_to(zero + MASKED, shape)
            o, total, largest = lax.fori_loop(*tiles.keys_seen(i, kv.shape[2]), key_block, start)
            lse = largest + jnp.log(total)  # minus infinity where no block was visited
            return None, ((o / jnp.maximum(total, 1)[..., None]).astype(q.dtype), lse)

        queries = tiles.queries(q, heads)
        _, (o, lse) = lax.scan(query_block, None, (jnp.arange(len(queries)), queries))
        return Attended(jnp.einsum("ibkgth->bitkgh", o).reshape(q.shape), jnp.einsum("ibkgt->bkgit", lse).reshape(B, N, T))

    def backward(
        self,
        q: Float[Array, "B T N H"],
        kv: Float[Array, "2 B S K H"],
        *,
        attended: Attended,
        do: Float[Array, "B T N H"],
        mask: Mask,
        segments: Segments | None = None,
    ) -> Gradients:
        """One pass, five products a tile: the query blocks of one key block after another; dq is summed in fp32 in place."""
        tiles = self._tiles(q.shape[1], kv.shape[2], mask=mask, segments=segments)
        heads = kv.shape[3]
        queries, dos = tiles.queries(q, heads), tiles.queries(do, heads)
        inner = jnp.einsum("ibtkgh,ibtkgh->ibkgt", dos, tiles.queries(attended.o, heads), preferred_element_type=jnp.float32)
        lses = jnp.einsum("bkgit->ibkgt", attended.lse.reshape(*inner.shape[1:4], len(queries), tiles.query))
        scale = 1 / sqrt(q.shape[-1])

        def key_block(dq: Any, j: Any) -> Any:
            key, value = tiles.keys(kv, j)

            def query_block(i: Any, carry: Any) -> Any:
                dq, dk, dv = carry
                weights = jnp.exp(tiles.scores(queries[i], key, at=(i, j)) - lses[i][..., None])
                dweights = dot("btkgh,bskh->bkgts", dos[i], value)
                dscores = (weights * (dweights - inner[i][..., None]) * scale).astype(q.dtype)
                dv += dot("bkgts,btkgh->bskh", weights.astype(q.dtype), dos[i])
                dk += dot("bkgts,btkgh->bskh", dscores, queries[i])
                return dq.at[i].add(dot("bkgts,bskh->btkgh", dscores, key)), dk, dv

            zero = jnp.zeros(key.shape, jnp.float32)
            dq, dk, dv = lax.fori_loop(*tiles.queries_seen(j, len(queries)), query_block, (dq, zero, zero))
            return dq, jnp.stack([dk, dv]).astype(kv.dtype)

        zero = jnp.zeros(queries.shape, jnp.float32)
        dq, dkv = lax.scan(key_block, zero, jnp.arange(kv.shape[2] // tiles.key))
        return Gradients(
            jnp.einsum("ibtkgh->bitkgh", dq).reshape(q.shape).astype(q.dtype),
            jnp.einsum("jcbskh->cbjskh", dkv).reshape(kv.shape),
        )

    def _tiles(self, queries: int, keys: int, *, mask: Mask, segments: Segments | None) -> Tiles:
        sizes = block_size(queries, largest=self.query_block), block_size(keys, largest=self.key_block)
        return Tiles(*sizes, mask, segments, self.window, before=0 if mask == "full" else keys - queries)
