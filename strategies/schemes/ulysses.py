"""Ulysses attention: all-to-all from a part of the sequence and all heads to more of the sequence and a part of the heads.

Neighbouring context ranks exchange: all of them in scheme ``ulysses``, where each then runs one causal kernel over the whole
sequence for its N / C heads; groups of them in ``ulysses-ring``, where each group holds a chunk of the sequence, and a ring
over the groups attends to the others; of a windowed layer halos go from group to group instead. Where the ranks that exchange
outnumber KV heads, each head is sent to all ranks whose queries share it. What the exchanges give is a residual that no remat
policy names: the backward pass exchanges queries, keys and values again.

Inside ``shard_map``: all lengths are local; E ranks exchange, S = E T.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from strategies.kernels.interface import Attended, ChunkKernel
from strategies.parallel.collectives import all_to_all
from strategies.parallel.custom_gradients import with_backward
from strategies.parallel.mesh import CONTEXT
from strategies.parallel.remat import name
from strategies.schemes.documents import Documents, between, by_group
from strategies.schemes.pattern import Pattern
from strategies.schemes.ring import ring_backward, ring_forward
from strategies.schemes.window import Halos, window_backward, window_forward


@dataclass(frozen=True)
class Inner:
    """Attention between the exchanges: (q, kv, documents) to output and residuals; these with a cotangent to gradients."""

    forward: Callable[[Array, Array, Documents], tuple[Array, Any]]
    backward: Callable[[Any, Array], tuple[Array, Array, None]]


def ulysses_attention(
    q: Float[Array, "B T N H"],
    kv: Float[Array, "2 B T K H"],
    *,
    kernel: ChunkKernel,
    ranks: int,
    documents: Documents = None,
) -> Float[Array, "B T N H"]:
    """Causal attention of the local queries to their sequence or document; all ``ranks`` of the context axis exchange."""
    inner = Inner(partial(_whole_forward, kernel=kernel), partial(_whole_backward, kernel=kernel))
    return _exchanged(q, kv, inner=inner, ranks=ranks, documents=documents)


def ulysses_ring_attention(
    q: Float[Array, "B T N H"], kv: Float[Array, "2 B T K H"], *, pattern: Pattern, documents: Documents = None
) -> Float[Array, "B T N H"]:
    """The same by exchanges among the neighbours of one group and a ring over the groups."""
    inner = Inner(partial(ring_forward, pattern=pattern), partial(ring_backward, pattern=pattern))
    return _exchanged(q, kv, inner=inner, ranks=pattern.route.stride, documents=documents)


def ulysses_window_attention(
    q: Float[Array, "B T N H"],
    kv: Float[Array, "2 B T K H"],
    *,
    kernel: ChunkKernel,
    halos: Halos,
    documents: Documents = None,
) -> Float[Array, "B T N H"]:
    """The same within the window of ``kernel``: groups bring each other's halos in place of a ring."""
    inner = Inner(partial(window_forward, kernel=kernel, halos=halos), partial(window_backward, kernel=kernel, halos=halos))
    return _exchanged(q, kv, inner=inner, ranks=halos.route.stride, documents=documents)


def _exchanged(
    q: Float[Array, "B T N H"], kv: Float[Array, "2 B T K H"], *, inner: Inner, ranks: int, documents: Documents
) -> Float[Array, "B T N H"]:
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


def _whole_forward(
    q_BSnH: Float[Array, "B S n H"], kv_2BSkH: Float[Array, "2 B S k H"], documents: Documents, *, kernel: ChunkKernel
) -> tuple[Array, Any]:
    segments = between(documents, 0, 0)
    o, lse = kernel.forward(q_BSnH, kv_2BSkH, mask="causal", segments=segments)
    attended = Attended(name(o, "context"), name(lse, "lse"))
    return attended.o, (q_BSnH, kv_2BSkH, attended, segments)


def _whole_backward(residuals: Any, do: Float[Array, "B S n H"], *, kernel: ChunkKernel) -> tuple[Array, Array, None]:
    q_BSnH, kv_2BSkH, attended, segments = residuals
    dq, dkv = kernel.backward(q_BSnH, kv_2BSkH, attended=attended, do=do, mask="causal", segments=segments)
    return dq, dkv, None


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
