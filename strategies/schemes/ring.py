"""Ring attention: keys and values travel round the context axis while every rank attends to the chunk in hand.

Rank r starts with its own chunk and has that of rank r-j after j hops. The next chunk's permute is issued before the kernel
on this one, so that the compiler can run both at once; key and value are one buffer, one message a hop. The backward pass
rotates them once more together with their gradients, which visit every rank and end where they belong: c-1 hops of keys and
values, c of fp32 gradients. It saves only the output and the log-sum-exp.

Inside ``shard_map``: all lengths are local.
"""

from __future__ import annotations

from functools import partial
from typing import Any

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

_hop = partial(shift, axis=CONTEXT)


def ring_attention(q: Float[Array, "B T N H"], kv: Float[Array, "2 B T K H"], *, pattern: Pattern) -> Float[Array, "B T N H"]:
    """Causal attention of the local queries to the whole sequence."""
    return with_backward(partial(_forward, pattern=pattern), partial(_backward, pattern=pattern))(q, kv)


def _owner(rank: Int[Array, ""], hops: int | Array) -> Int[Array, ""]:
    """Whose keys are here after so many hops."""
    return (rank - hops) % lax.axis_size(CONTEXT)


def _forward(q: Float[Array, "B T N H"], kv: Float[Array, "2 B T K H"], *, pattern: Pattern) -> tuple[Array, Any]:
    rank, last = staged_with(lax.axis_index(CONTEXT), q), lax.axis_size(CONTEXT) - 1
    coming = _hop(kv)
    merged = Merged.of(pattern.kernel.forward(q, kv, mask="causal"))

    def hop(j: Array, carry: tuple[Array, Merged]) -> tuple[Array, Merged]:
        here, merged = carry
        return _hop(here), merged.with_chunk(pattern.forward(q, here, owner=_owner(rank, j)))

    if last > 0:
        here, merged = lax.fori_loop(1, last, hop, (coming, merged))
        merged = merged.with_chunk(pattern.forward(q, here, owner=_owner(rank, last)))
    o, lse = name(merged.o.astype(q.dtype), "context"), name(merged.lse, "lse")
    return o, (q, kv, coming, Attended(o, lse))


def _backward(residuals: Any, do: Float[Array, "B T N H"], *, pattern: Pattern) -> tuple[Array, Array]:
    q, kv, coming, attended = residuals
    rank, last = lax.axis_index(CONTEXT), lax.axis_size(CONTEXT) - 1
    local = pattern.kernel.backward(q, kv, attended=attended, do=do, mask="causal")
    total = Gradients(*(part.astype(jnp.float32) for part in local))

    def visit(here: Array, total: Gradients, *, owner: Int[Array, ""]) -> Gradients:
        arrived = _hop(total.dkv)
        chunk = pattern.backward(q, here, attended=attended, do=do, owner=owner)
        return Gradients(total.dq + chunk.dq, arrived + chunk.dkv)

    def hop(j: Array, carry: tuple[Array, Gradients]) -> tuple[Array, Gradients]:
        here, total = carry
        return _hop(here), visit(here, total, owner=_owner(rank, j))

    if last > 0:
        here, total = lax.fori_loop(1, last, hop, (coming, total))
        total = visit(here, total, owner=_owner(rank, last))
    return total.dq.astype(q.dtype), _hop(total.dkv).astype(kv.dtype)
