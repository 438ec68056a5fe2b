"""ChunkKernel: attention of local queries to one chunk of keys and values, and its backward pass.

The backward pass is given the *global* output and log-sum-exp of its queries, over all chunks that they attend to. Then
``softmax = exp(scores - lse)`` is right for each single chunk and the chunks' gradients simply add up: no gradient of a
log-sum-exp merge is ever taken.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

from jaxtyping import Array, Float, Int

Mask = Literal["full", "causal"]
"""``causal``: query i attends to keys 0..i, with as many keys as queries; of more keys S than queries T, which a kernel with a
window takes, to keys up to S - T + i. ``full``: to all."""


class Segments(NamedTuple):
    """The document of each token: a query sees only keys of its own document that the mask also allows.

    A query that sees no key of a chunk has a log-sum-exp so far below any score, or minus infinity, that a merge takes nothing
    of it, and a finite output.
    """

    q: Int[Array, "B T"]
    kv: Int[Array, "B S"]


class Attended(NamedTuple):
    """The result of attention for each query."""

    o: Float[Array, "B T N H"]
    lse: Float[Array, "B N T"]
    """Log-sum-exp of the scaled scores, fp32."""


class Gradients(NamedTuple):
    """Gradients of one chunk: of its queries, and of its keys and values in one buffer."""

    dq: Float[Array, "B T N H"]
    dkv: Float[Array, "2 B S K H"]


class ChunkKernel(Protocol):
    """One way to run it. Scores are scaled by 1 / sqrt(H). Query head n attends to KV head n // G; KV is never repeated."""

    def forward(
        self, q: Float[Array, "B T N H"], kv: Float[Array, "2 B S K H"], *, mask: Mask, segments: Segments | None = None
    ) -> Attended:
        """Return output and log-sum-exp over this chunk only."""

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
        """This chunk's share of the gradients, from the global output and log-sum-exp and the output's cotangent."""
