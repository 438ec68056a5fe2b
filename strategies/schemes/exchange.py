"""Exchange of heads: all-to-all from a part of the sequence and all heads to more of the sequence and a part of the heads.

Neighbouring context ranks exchange; each then attends for its share of the heads, and the inverse exchange brings outputs
back. Where the ranks that exchange outnumber KV heads, each head is sent to all ranks whose queries share it. The exchanged
tensors are residuals that no remat policy names: the backward pass exchanges queries, keys and values again.

Inside ``shard_map``: all lengths are local; E ranks exchange, S = E T.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from strategies.parallel.collectives import all_to_all
from strategies.parallel.custom_gradients import with_backward
from strategies.parallel.mesh import CONTEXT
from strategies.schemes.documents import Documents, by_group


@dataclass(frozen=True)
class Inner:
    """Attention between the exchanges: (q, kv, documents) to output and residuals; these with a cotangent to gradients."""

    forward: Callable[[Array, Array, Documents], tuple[Array, Any]]
    backward: Callable[[Any, Array], tuple[Array, Array, None]]


def exchanged(
    q: Float[Array, "B T N H"], kv: Float[Array, "2 B T K H"], *, inner: Inner, ranks: int, documents: Documents
) -> Float[Array, "B T N H"]:
    """Attention of the local queries by ``inner``, between exchanges of heads among ``ranks`` neighbours."""
    copies = max(1, ranks // kv.shape[3])

    def forward(q: Array, kv: Array, documents: Documents) -> tuple[Array, Any]:
        q_BSnH, kv_2BSkH = _to_heads(q, ranks), _to_heads(jnp.repeat(kv, copies, axis=3), ranks)
        o_BSnH, residuals = inner.forward(q_BSnH, kv_2BSkH, documents)
        return _to_sequence(o_BSnH, ranks), residuals

    def backward(residuals: Any, do: Array) -> tuple[Array, Array, None]:
        dq, dkv, _ = inner.backward(residuals, _to_heads(do, ranks))
        dkv = _to_sequence(dkv, ranks)
        summed = dkv.reshape(*dkv.shape[:3], -1, copies, dkv.shape[4]).astype(jnp.float32).sum(axis=4)
        return _to_sequence(dq, ranks), summed.astype(dkv.dtype), None

    return with_backward(forward, backward)(q, kv, by_group(documents, ranks))


def _to_heads(x: Float[Array, "... T N H"], ranks: int) -> Float[Array, "... S n H"]:
    """Give away heads, get the other ranks' tokens of the heads that stay."""
    *outer, T, N, H = x.shape
    parts = jnp.moveaxis(x.reshape(*outer, T, ranks, N // ranks, H), -3, 0)
    return jnp.moveaxis(all_to_all(parts, CONTEXT), 0, -4).reshape(*outer, ranks * T, N // ranks, H)


def _to_sequence(x: Float[Array, "... S n H"], ranks: int) -> Float[Array, "... T N H"]:
    """The inverse, and the transpose, of ``_to_heads``."""
    *outer, S, n, H = x.shape
    parts = jnp.moveaxis(x.reshape(*outer, ranks, S // ranks, n, H), -4, 0)
    return jnp.moveaxis(all_to_all(parts, CONTEXT), 0, -3).reshape(*outer, S // ranks, ranks * n, H)
