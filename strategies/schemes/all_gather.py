"""All-gather attention: every rank gathers all keys and values, then attends to them chunk by chunk (Llama 3's way).

The chunks are those of a zigzag ring, so the kernel calls and their balance are the same; only the communication differs:
one gather before all of them, one reduce-scatter of fp32 gradients after. The gathered buffer is a residual that no remat
policy names: the backward pass gathers it again, once, for the recomputed attention and for its gradients together.

Inside ``shard_map``: all lengths are local; C context ranks.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from strategies.kernels.interface import Attended
from strategies.parallel.collectives import all_gather, reduce_scatter
from strategies.parallel.compute_in_place import staged_with
from strategies.parallel.custom_gradients import with_backward
from strategies.parallel.mesh import CONTEXT
from strategies.parallel.ranks import axis_index, axis_size
from strategies.parallel.remat import name
from strategies.schemes.documents import Documents, between, staged
from strategies.schemes.interface import AttentionCall
from strategies.schemes.merge import Merged
from strategies.schemes.pattern import Pattern


def all_gather_attention(
    q: Float[Array, "B T N H"], kv: Float[Array, "2 B T K H"], *, call: AttentionCall
) -> Float[Array, "B T N H"]:
    """Causal attention of the local queries to the whole sequence, or to their documents."""
    forward, backward = partial(_forward, pattern=call.pattern), partial(_backward, pattern=call.pattern)
    return with_backward(forward, backward)(q, kv, call.documents)


def _forward(
    q: Float[Array, "B T N H"], kv: Float[Array, "2 B T K H"], documents: Documents, *, pattern: Pattern
) -> tuple[Array, Any]:
    documents = staged(documents, q)
    rank, ranks = staged_with(axis_index(CONTEXT), q), axis_size(CONTEXT)
    chunks_C2BTKH = all_gather(kv[None], CONTEXT)

    def visit(j: Array, merged: Merged) -> Merged:
        owner = (rank - j) % ranks
        return merged.with_chunk(pattern.forward(q, chunks_C2BTKH[owner], owner=owner, documents=documents))

    own = pattern.kernel.forward(q, kv, mask="causal", segments=between(documents, rank, rank))
    merged = lax.fori_loop(1, ranks, visit, Merged.of(own))
    o, lse = name(merged.o.astype(q.dtype), "attention_output"), name(merged.lse, "lse")
    return o, (q, chunks_C2BTKH, Attended(o, lse), documents)


def _backward(residuals: Any, do: Float[Array, "B T N H"], *, pattern: Pattern) -> tuple[Array, Array, None]:
    q, chunks_C2BTKH, attended, documents = residuals
    documents = staged(documents, do)  # what a kernel makes of ids need not wait for it here
    rank, ranks = axis_index(CONTEXT), axis_size(CONTEXT)
    segments = between(documents, rank, rank)
    own = pattern.kernel.backward(q, chunks_C2BTKH[rank], attended=attended, do=do, mask="causal", segments=segments)

    def visit(j: Array, total: tuple[Array, Array]) -> tuple[Array, Array]:
        dq, dchunks = total
        owner = (rank - j) % ranks
        chunk = pattern.backward(q, chunks_C2BTKH[owner], attended=attended, do=do, owner=owner, documents=documents)
        return dq + chunk.dq, dchunks.at[owner].set(chunk.dkv.astype(jnp.float32))

    dchunks = jnp.zeros(chunks_C2BTKH.shape, jnp.float32).at[rank].set(own.dkv.astype(jnp.float32))
    dq, dchunks = lax.fori_loop(1, ranks, visit, (own.dq.astype(jnp.float32), dchunks))
    return dq.astype(q.dtype), reduce_scatter(dchunks, CONTEXT)[0].astype(chunks_C2BTKH.dtype), None
