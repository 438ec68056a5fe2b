"""Ulysses attention: all ranks of the context axis exchange tokens for heads, then one causal kernel sees whole sequences.

Inside ``shard_map``: all lengths are local; E ranks exchange, S = E T.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from jaxtyping import Array, Float

from strategies.kernels.interface import Attended, ChunkKernel
from strategies.parallel.remat import name
from strategies.schemes.documents import Documents, between
from strategies.schemes.exchange import Inner, exchanged
from strategies.schemes.interface import AttentionCall


def ulysses_attention(
    q: Float[Array, "B T N H"], kv: Float[Array, "2 B T K H"], *, call: AttentionCall
) -> Float[Array, "B T N H"]:
    """Causal attention of the local queries to their sequence or document, in the kernel's window."""
    inner = Inner(partial(_whole_forward, kernel=call.kernel), partial(_whole_backward, kernel=call.kernel))
    return exchanged(q, kv, inner=inner, ranks=call.spec.strategy.mesh.context, documents=call.documents)


def _whole_forward(
    q_BSnH: Float[Array, "B S n H"], kv_2BSkH: Float[Array, "2 B S k H"], documents: Documents, *, kernel: ChunkKernel
) -> tuple[Array, Any]:
    segments = between(documents, 0, 0)
    o, lse = kernel.forward(q_BSnH, kv_2BSkH, mask="causal", segments=segments)
    attended = Attended(name(o, "attention_output"), name(lse, "lse"))
    return attended.o, (q_BSnH, kv_2BSkH, attended, segments)


def _whole_backward(residuals: Any, do: Float[Array, "B S n H"], *, kernel: ChunkKernel) -> tuple[Array, Array, None]:
    q_BSnH, kv_2BSkH, attended, segments = residuals
    dq, dkv = kernel.backward(q_BSnH, kv_2BSkH, attended=attended, do=do, mask="causal", segments=segments)
    return dq, dkv, None
