"""Ring attention: keys and values travel round the context axis while every rank attends to the chunk in hand.

Rank r starts with its own chunk and has that of rank r-j after j hops. The next chunk's permute is issued before the kernel
on this one, so that the compiler can run both at once; key and value are one buffer, one message per hop. Of two directions
each has half of the heads, and the second one's chunks come from the other side. The backward pass rotates chunks once more
together with their gradients, which visit every rank, summed in fp32, and end where they belong. It saves only the output
and the log-sum-exp; the first chunk that came is a residual that no remat policy names, so that it travels once for the
recomputed attention and for its gradients together.

Inside ``shard_map``: all lengths are local.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from strategies.kernels.interface import Attended, Gradients
from strategies.parallel.compute_in_place import staged_with
from strategies.parallel.custom_gradients import with_backward
from strategies.parallel.remat import name
from strategies.schemes.documents import Documents, between, staged
from strategies.schemes.interface import AttentionCall
from strategies.schemes.merge import Merged
from strategies.schemes.pattern import Pattern
from strategies.schemes.route import Route

Total = TypeVar("Total")


class Chunk(NamedTuple):
    """The chunk in hand: keys and values in one buffer, and the rank that they belong to."""

    kv: Float[Array, "2 B T K H"]
    owner: Int[Array, ""]


Chunks = tuple[Chunk, ...]
"""One chunk per direction."""


def ring_attention(
    q: Float[Array, "B T N H"], kv: Float[Array, "2 B T K H"], *, call: AttentionCall
) -> Float[Array, "B T N H"]:
    """Causal attention of the local queries to the whole sequence, or to their documents."""
    forward, backward = partial(ring_forward, pattern=call.pattern), partial(ring_backward, pattern=call.pattern)
    return with_backward(forward, backward)(q, kv, call.documents)


def ring_forward(
    q: Float[Array, "B T N H"], kv: Float[Array, "2 B T K H"], documents: Documents, *, pattern: Pattern
) -> tuple[Array, Any]:
    """Return the output and the residuals of ``ring_backward``."""
    route, documents = pattern.route, staged(documents, q)
    place = staged_with(route.place(), q)
    own = tuple(Chunk(part, place) for part in _by_direction(kv, route, axis=3))
    coming = _passed_on(own, route)
    qs = _by_direction(q, route, axis=2)
    segments = between(documents, place, place)
    merged = tuple(
        Merged.of(pattern.kernel.forward(q, chunk.kv, mask="causal", segments=segments))
        for q, chunk in zip(qs, own, strict=True)
    )

    def visit(chunks: Chunks, merged: tuple[Merged, ...]) -> tuple[Merged, ...]:
        directions = zip(qs, chunks, merged, strict=True)
        return tuple(
            so_far.with_chunk(pattern.forward(q, chunk.kv, owner=chunk.owner, documents=documents))
            for q, chunk, so_far in directions
        )

    merged = _round(visit, coming, route=route, total=merged)
    o, lse = _joined([direction.o for direction in merged], axis=2), _joined([direction.lse for direction in merged], axis=1)
    o, lse = name(o.astype(q.dtype), "attention_output"), name(lse, "lse")
    return o, (q, own, coming, Attended(o, lse), documents)


def ring_backward(residuals: Any, do: Float[Array, "B T N H"], *, pattern: Pattern) -> tuple[Array, Array, None]:
    """Return gradients of queries, and of keys and values; documents have no gradient."""
    q, own, coming, attended, documents = residuals
    route, documents = pattern.route, staged(documents, do)  # what a kernel makes of ids need not wait for it here
    qs, dos, os = (_by_direction(x, route, axis=2) for x in (q, do, attended.o))
    seen = tuple(Attended(o, lse) for o, lse in zip(os, _by_direction(attended.lse, route, axis=1), strict=True))

    def local(direction: int) -> Gradients:
        segments = between(documents, own[direction].owner, own[direction].owner)
        dq, dkv = pattern.kernel.backward(
            qs[direction], own[direction].kv, attended=seen[direction], do=dos[direction], mask="causal", segments=segments
        )
        share = dkv if route.ranks() == 2 else dkv.astype(jnp.float32)  # passed on once, and no sum yet
        return Gradients(dq.astype(jnp.float32), share)

    def visit(chunks: Chunks, totals: tuple[Gradients, ...]) -> tuple[Gradients, ...]:
        arrived = [route.shift(total.dkv, way) for total, way in zip(totals, route.ways, strict=True)]
        sums = []
        for direction, (chunk, total) in enumerate(zip(chunks, totals, strict=True)):
            part = pattern.backward(
                qs[direction], chunk.kv, attended=seen[direction], do=dos[direction], owner=chunk.owner, documents=documents
            )
            sums.append(Gradients(total.dq + part.dq, arrived[direction].astype(jnp.float32) + part.dkv))
        return tuple(sums)

    totals = _round(visit, coming, route=route, total=tuple(map(local, range(len(own)))))
    returned = [route.shift(total.dkv.astype(q.dtype), way) for total, way in zip(totals, route.ways, strict=True)]  # complete
    return _joined([total.dq.astype(q.dtype) for total in totals], axis=2), _joined(returned, axis=3), None


def _round(visit: Callable[[Chunks, Total], Total], coming: Chunks, *, route: Route, total: Total) -> Total:
    """Visit the chunks of all other ranks. The last one is not passed on."""
    others = route.ranks() - 1

    def hop(_: Array, carry: tuple[Chunks, Total]) -> tuple[Chunks, Total]:
        chunks, total = carry
        coming = _passed_on(chunks, route)
        return coming, visit(chunks, total)

    if others == 0:
        return total
    last = coming
    if others > 1:
        last, total = lax.fori_loop(1, others, hop, (coming, total))
    return visit(last, total)


def _passed_on(chunks: Chunks, route: Route) -> Chunks:
    """Return the chunks that arrive when every rank passes on its own."""
    directions = zip(chunks, route.ways, strict=True)
    return tuple(Chunk(route.shift(chunk.kv, way), (chunk.owner - way) % route.ranks()) for chunk, way in directions)


def _by_direction(x: Float[Array, ...], route: Route, *, axis: int) -> list[Array]:
    """Split the heads over the directions."""
    return jnp.split(x, len(route.ways), axis=axis) if len(route.ways) > 1 else [x]


def _joined(directions: list[Array], *, axis: int) -> Array:
    return jnp.concatenate(directions, axis=axis) if len(directions) > 1 else directions[0]
