"""Attention of one new token of each sequence to the cache and to itself.

Inside ``shard_map``: all lengths are local.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from strategies.rollout.cache import Stack

HIDDEN = -1e30
"""The score of a slot that a token does not see."""


@dataclass(frozen=True)
class Reader:
    """The facts of a decode step: the slot of its token, how long each sequence is, and how much of the cache is read."""

    position: Int[Array, ""]
    padding_B: Int[Array, " B"]
    length: int
    """Slots that attention reads, at least all filled slots; a stack with fewer is read whole."""

    def attend(
        self, q_BKGH: Float[Array, "B K G H"], new_2BKH: Float[Array, "2 B K H"], stack: Stack, *, layer: Int[Array, ""]
    ) -> Float[Array, "B K G H"]:
        """Attention to the slots before the token, and to the token itself; scores and sums are fp32."""
        length = min(self.length, stack.slots)
        key_BKSH, value_BKSH = (_layer(part, layer, length=length) for part in (stack.keys, stack.values))
        q, scale = q_BKGH.astype(key_BKSH.dtype), 1 / sqrt(q_BKGH.shape[-1])
        scores = scale * jnp.einsum("BKGH,BKSH->BKGS", q, key_BKSH, preferred_element_type=jnp.float32)
        scores = jnp.where(self.seen(stack.slots, length)[:, None, None], scores, HIDDEN)
        own = scale * jnp.einsum("BKGH,BKH->BKG", q_BKGH, new_2BKH[0], preferred_element_type=jnp.float32)[..., None]
        top = jnp.maximum(scores.max(axis=-1, keepdims=True), own)
        weights, own = jnp.exp(scores - top), jnp.exp(own - top)
        sums = weights.sum(axis=-1, keepdims=True) + own
        o = jnp.einsum("BKGS,BKSH->BKGH", weights.astype(q.dtype), value_BKSH, preferred_element_type=jnp.float32)
        return ((o + own * new_2BKH[1][:, :, None].astype(jnp.float32)) / sums).astype(q_BKGH.dtype)

    def seen(self, slots: int, length: int) -> Bool[Array, "B S"]:
        """Slots that the token sees: those of its own sequence, up to ``slots - 1`` tokens back.

        The slot that the token is about to take holds the token of ``slots`` ago, or nothing.
        """
        ago = (self.position - jnp.arange(length)) % slots
        return (ago > 0) & (self.position - ago >= self.padding_B[:, None])


def _layer(part: Float[Array, "L B K S H"], layer: Int[Array, ""], *, length: int) -> Float[Array, "B K S H"]:
    """The first ``length`` slots of a layer."""
    sizes = (1, *part.shape[1:3], length, part.shape[4])
    return lax.dynamic_slice(part, (layer, 0, 0, 0, 0), sizes)[0]
