"""Ring attention: keys and values travel round the context axis while every rank attends to the chunk in hand.

Rank r starts with its own chunk and has that of rank r-j after j hops. The next chunk's permute is issued before the kernel
on this one, so that the compiler can run both at once; key and value are one buffer, one message a hop. The backward pass
rotates them once more together with their gradients, which visit every rank, summed in fp32, and end where they belong. It
saves only the output and the log-sum-exp; the first chunk that came is a residual that no remat policy names, so that it
travels once for the recomputed attention and for its gradients together.

Inside ``shard_map``: all lengths are local.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from strategies.collectives import shift
from strategies.kernels.interface import Attended, Gradients
from strategies.mesh import CONTEXT
from strategies.remat import name
from strategies.schemes.merge import Merged
from strategies.schemes.pattern import Pattern
from strategies.staging import staged_with
from strategies.vjp import with_backward

Total = TypeVar("Total")


class Chunk(NamedTuple):
    """The chunk in hand: keys and values in one buffer, and the rank that they belong to."""

    kv: Float[Array, "2 B T K H"]
    owner: Int[Array, ""]

    def next(self) -> Chunk:
        """What arrives when every rank passes on what it holds."""
        return Chunk(shift(self.kv, CONTEXT), (self.owner - 1) % lax.axis_size(CONTEXT))


def ring_attention(q: Float[Array, "B T N H"], kv: Float[Array, "2 B T K H"], *, pattern: Pattern) -> Float[Array, "B T N H"]:
    """Causal attention of the local queries to the whole sequence."""
    return with_backward(partial(_forward, pattern=pattern), partial(_backward, pattern=pattern))(q, kv)


def _forward(q: Float[Array, "B T N H"], kv: Float[Array, "2 B T K H"], *, pattern: Pattern) -> tuple[Array, Any]:
    own = Chunk(kv, staged_with(lax.axis_index(CONTEXT), q))
    coming = own.next()
    merged = Merged.of(pattern.kernel.forward(q, kv, mask="causal"))

    def visit(chunk: Chunk, merged: Merged) -> Merged:
        return merged.with_chunk(pattern.forward(q, chunk.kv, owner=chunk.owner))

    merged = _round(visit, coming, total=merged)
    o, lse = name(merged.o.astype(q.dtype), "context"), name(merged.lse, "lse")
    return o, (q, own, coming, Attended(o, lse))


def _backward(residuals: Any, do: Float[Array, "B T N H"], *, pattern: Pattern) -> tuple[Array, Array]:
    q, own, coming, attended = residuals
    local = pattern.kernel.backward(q, own.kv, attended=attended, do=do, mask="causal")
    total = Gradients(*(part.astype(jnp.float32) for part in local))

    def visit(chunk: Chunk, total: Gradients) -> Gradients:
        arrived = shift(total.dkv, CONTEXT)
        part = pattern.backward(q, chunk.kv, attended=attended, do=do, owner=chunk.owner)
        return Gradients(total.dq + part.dq, arrived + part.dkv)

    total = _round(visit, coming, total=total)
    return total.dq.astype(q.dtype), shift(total.dkv.astype(q.dtype), CONTEXT)  # complete, on its way home


def _round(visit: Callable[[Chunk, Total], Total], coming: Chunk, *, total: Total) -> Total:
    """Visit the chunks of all other ranks. The last one is not passed on."""
    others = lax.axis_size(CONTEXT) - 1

    def hop(_: Array, carry: tuple[Chunk, Total]) -> tuple[Chunk, Total]:
        chunk, total = carry
        coming = chunk.next()
        return coming, visit(chunk, total)

    if others == 0:
        return total
    last, total = lax.fori_loop(1, others, hop, (coming, total))
    return visit(last, total)
