"""Ulysses attention: all-to-all from a part of the sequence and all heads to all of the sequence and a part of the heads.

Between the exchanges each rank runs one causal kernel over the whole sequence for its N / C heads. Where the context axis
has more ranks than KV heads, each head is sent to the C / K ranks whose queries share it. What the exchanges give is a
residual that no remat policy names: the backward pass exchanges queries, keys and values again.

Inside ``shard_map``: all lengths are local; C context ranks, S = C T.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from strategies.collectives import all_to_all
from strategies.kernels.interface import Attended, ChunkKernel
from strategies.mesh import CONTEXT
from strategies.remat import name
from strategies.vjp import with_backward


def ulysses_attention(
    q: Float[Array, "B T N H"], kv: Float[Array, "2 B T K H"], *, kernel: ChunkKernel
) -> Float[Array, "B T N H"]:
    """Causal attention of the local queries to the whole sequence."""
    backward = partial(_backward, copies=_copies(kv.shape[3]), kernel=kernel)
    return with_backward(partial(_forward, kernel=kernel), backward)(q, kv)


def _copies(heads: int) -> int:
    """To how many ranks each KV head goes."""
    return max(1, lax.axis_size(CONTEXT) // heads)


def _forward(q: Float[Array, "B T N H"], kv: Float[Array, "2 B T K H"], *, kernel: ChunkKernel) -> tuple[Array, Any]:
    q_BSnH, kv_2BSkH = _to_heads(q), _to_heads(jnp.repeat(kv, _copies(kv.shape[3]), axis=3))
    o, lse = kernel.forward(q_BSnH, kv_2BSkH, mask="causal")
    attended = Attended(name(o, "context"), name(lse, "lse"))
    return _to_sequence(attended.o), (q_BSnH, kv_2BSkH, attended)


def _backward(residuals: Any, do: Float[Array, "B T N H"], *, copies: int, kernel: ChunkKernel) -> tuple[Array, Array]:
    q_BSnH, kv_2BSkH, attended = residuals
    dq, dkv = kernel.backward(q_BSnH, kv_2BSkH, attended=attended, do=_to_heads(do), mask="causal")
    dkv = _to_sequence(dkv)
    dkv = dkv.reshape(*dkv.shape[:3], -1, copies, dkv.shape[4]).astype(jnp.float32).sum(axis=4)
    return _to_sequence(dq), dkv.astype(kv_2BSkH.dtype)


def _to_heads(x: Float[Array, "... T N H"]) -> Float[Array, "... S n H"]:
    """Give away heads, get the other ranks' tokens of the heads that stay."""
    ranks = lax.axis_size(CONTEXT)
    *outer, T, N, H = x.shape
    parts = jnp.moveaxis(x.reshape(*outer, T, ranks, N // ranks, H), -3, 0)
    return jnp.moveaxis(all_to_all(parts, CONTEXT), 0, -4).reshape(*outer, ranks * T, N // ranks, H)


def _to_sequence(x: Float[Array, "... S n H"]) -> Float[Array, "... T N H"]:
    """The inverse, and the transpose, of ``_to_heads``."""
    ranks = lax.axis_size(CONTEXT)
    *outer, S, n, H = x.shape
    parts = jnp.moveaxis(x.reshape(*outer, ranks, S // ranks, n, H), -4, 0)
    return jnp.moveaxis(all_to_all(parts, CONTEXT), 0, -3).reshape(*outer, S // ranks, ranks * n, H)
