"""Merge attention over separate chunks: exact, in fp32, by their log-sum-exps."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from strategies.kernels.interface import Attended


class Merged(NamedTuple):
    """Attention to all chunks so far; the output in fp32, so that rounding does not add up over chunks."""

    o: Float[Array, "B T N H"]
    lse: Float[Array, "B N T"]

    @classmethod
    def of(cls, attended: Attended) -> Merged:
        """The first chunk; every query has seen at least one key in it."""
        return cls(attended.o.astype(jnp.float32), attended.lse)

    def with_chunk(self, chunk: Attended) -> Merged:
        """One more chunk: outputs weighted by their shares of the softmax's denominator."""
        lse = jnp.logaddexp(self.lse, chunk.lse)
        ours, theirs = (jnp.exp(part - lse).swapaxes(1, 2)[..., None] for part in (self.lse, chunk.lse))
        return Merged(self.o * ours + chunk.o * theirs, lse)
