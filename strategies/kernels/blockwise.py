"""Blockwise attention in plain JAX: the reference kernel, and what runs where no fused one is.

Scores exist for one block of queries by one block of keys at a time; sums are fp32. With a causal mask, blocks above the
diagonal are not visited. Any device, any dtype. Below, ``i`` counts query blocks and ``j`` key blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from strategies.kernels.interface import Attended, Gradients, Mask
from strategies.staging import staged_with

_MASKED = -1e30  # finite: where a whole row of a block is masked, exp(-inf + inf) would be nan


@dataclass(frozen=True)
class BlockwiseKernel:
    """Largest block sizes in tokens; a chunk that they do not divide takes its largest divisors below them."""

    query_block: int = 512
    key_block: int = 1024

    def forward(self, q: Float[Array, "B T N H"], kv: Float[Array, "2 B S K H"], *, mask: Mask) -> Attended:
        """Online softmax: the key blocks of one query block after another."""
        B, T, N, H = q.shape
        tiles = _Tiles(_divisor(T, self.query_block), _divisor(kv.shape[2], self.key_block), mask)
        heads, zero = kv.shape[3], staged_with(jnp.zeros((), jnp.float32), q)

        def query_block(_: None, operands: Any) -> Any:
            i, q_BtKGH = operands

            def key_block(j: Any, carry: Any) -> Any:
                o, total, largest = carry
                key, value = tiles.keys(kv, j)
                scores = tiles.scores(q_BtKGH, key, at=(i, j))
                new = jnp.maximum(largest, scores.max(-1))
                weights, kept = jnp.exp(scores - new[..., None]), jnp.exp(largest - new)
                o = o * kept[..., None] + _dot("bkgts,bskh->bkgth", weights.astype(q.dtype), value)
                return o, total * kept + weights.sum(-1), new

            shape = (B, heads, N // heads, tiles.query)
            start = jnp.broadcast_to(zero, (*shape, H)), jnp.broadcast_to(zero, shape), jnp.broadcast_to(zero + _MASKED, shape)
            o, total, largest = lax.fori_loop(0, tiles.keys_end(i, kv.shape[2]), key_block, start)
            return None, ((o / total[..., None]).astype(q.dtype), largest + jnp.log(total))

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
    ) -> Gradients:
        """One pass, five products a tile: the query blocks of one key block after another; dq is summed in fp32 in place."""
        tiles = _Tiles(_divisor(q.shape[1], self.query_block), _divisor(kv.shape[2], self.key_block), mask)
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
                dweights = _dot("btkgh,bskh->bkgts", dos[i], value)
                dscores = (weights * (dweights - inner[i][..., None]) * scale).astype(q.dtype)
                dv += _dot("bkgts,btkgh->bskh", weights.astype(q.dtype), dos[i])
                dk += _dot("bkgts,btkgh->bskh", dscores, queries[i])
                return dq.at[i].add(_dot("bkgts,bskh->btkgh", dscores, key)), dk, dv

            zero = jnp.zeros(key.shape, jnp.float32)
            dq, dk, dv = lax.fori_loop(tiles.queries_start(j), len(queries), query_block, (dq, zero, zero))
            return dq, jnp.stack([dk, dv]).astype(kv.dtype)

        zero = jnp.zeros(queries.shape, jnp.float32)
        dq, dkv = lax.scan(key_block, zero, jnp.arange(kv.shape[2] // tiles.key))
        return Gradients(
            jnp.einsum("ibtkgh->bitkgh", dq).reshape(q.shape).astype(q.dtype),
            jnp.einsum("jcbskh->cbjskh", dkv).reshape(kv.shape),
        )


@dataclass(frozen=True)
class _Tiles:
    """Sizes of the query and key blocks, and which tiles of the score matrix the mask leaves."""

    query: int
    key: int
    mask: Mask

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
        scores = _dot("btkgh,bskh->bkgts", q, key) / sqrt(q.shape[-1])
        if self.mask == "full":
            return scores
        query_index = at[0] * self.query + jnp.arange(self.query)
        key_index = at[1] * self.key + jnp.arange(self.key)
        return jnp.where(query_index[:, None] >= key_index, scores, _MASKED)

    def keys_end(self, i: Array, keys: int) -> Array | int:
        """One past the last key block that query block i attends to."""
        return keys // self.key if self.mask == "full" else (i * self.query + self.query - 1) // self.key + 1

    def queries_start(self, j: Array) -> Array | int:
        """The first query block that attends to key block j."""
        return 0 if self.mask == "full" else j * self.key // self.query


def _divisor(length: int, largest: int) -> int:
    return next(size for size in range(min(length, largest), 0, -1) if length % size == 0)


def _dot(equation: str, *operands: Array) -> Array:
    return jnp.einsum(equation, *operands, preferred_element_type=jnp.float32)
