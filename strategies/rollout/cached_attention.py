"""Attention of one new token of each sequence to the cache and to itself.

Inside ``shard_map``: all lengths are local.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import sqrt

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from strategies.rollout.cache import Stack
from strategies.rollout.partial_attention import HIDDEN, Partial


@dataclass(frozen=True)
class Reader:
    """The facts of a decode step: the slot of its token, how long each sequence is, and how much of the cache is read."""

    position: Int[Array, ""]
    padding_B: Int[Array, " B"]
    length: int
    """Slots that attention reads, at least all filled slots; a stack with fewer is read whole."""
    kernel: bool = False
    """Whether the Pallas kernel reads the cache, where XLA would copy a layer first."""

    def attend(
        self, q_BKGH: Float[Array, "B K G H"], new_2BKH: Float[Array, "2 B K H"], stack: Stack, *, layer: Int[Array, ""]
    ) -> Float[Array, "B K G H"]:
        """Attention to the slots before the token, and to the token itself; scores and sums are fp32."""
        scaled = q_BKGH.astype(jnp.float32) / sqrt(q_BKGH.shape[-1])
        own = jnp.einsum("BKGH,BKH->BKG", scaled, new_2BKH[0].astype(jnp.float32))
        part = self._cached(q_BKGH, stack, layer)
        top = jnp.maximum(part.top, own)
        kept, weight = jnp.exp(part.top - top)[..., None], jnp.exp(own - top)[..., None]
        o = part.o * kept + weight * new_2BKH[1][:, :, None].astype(jnp.float32)
        return (o / (part.sums[..., None] * kept + weight)).astype(q_BKGH.dtype)

    def _cached(self, q_BKGH: Float[Array, "B K G H"], stack: Stack, layer: Int[Array, ""]) -> Partial:
        seen_BS = self.seen(stack.slots, min(self.length, stack.slots))
        if self.kernel:
            from strategies.rollout.gpu_attention import attend_in_place  # Pallas for Triton loads slowly

            return attend_in_place(q_BKGH, stack, seen_BS, layer=layer)
        return attend_by_products(q_BKGH, stack, seen_BS, layer=layer)

    def seen(self, slots: int, length: int) -> Bool[Array, "B S"]:
        """Slots that the token sees: those of its own sequence, up to ``slots - 1`` tokens back.

        The slot that the token is about to take holds the token of ``slots`` ago, or nothing.
        """
        ago = (self.position - jnp.arange(length)) % slots
        return (ago > 0) & (self.position - ago >= self.padding_B[:, None])


def attend_by_products(
    q_BKGH: Float[Array, "B K G H"], stack: Stack, seen_BS: Bool[Array, "B S"], *, layer: Int[Array, ""]
) -> Partial:
    """Attention to a layer's first S slots by two batched products.

    XLA for TPU reads the layer inside the products, where the stack is; for GPU it copies the layer first.
    """
    length, dtype = seen_BS.shape[1], stack.products_dtype
    key_BKSH, value_BKSH = (_layer(part, layer, length=length).astype(dtype) for part in (stack.keys, stack.values))
    q = q_BKGH.astype(dtype)
    # An fp32 cache is multiplied in fp32. In bf16, XLA for TPU would keep a rounded copy of the whole cache.
    product = partial(jnp.einsum, precision="highest" if dtype == jnp.float32 else None, preferred_element_type=jnp.float32)
    scores = product("BKGH,BKSH->BKGS", q, key_BKSH) / sqrt(q.shape[-1])
    if stack.key_scales is not None:
        scores = scores * _layer(stack.key_scales, layer, length=length)[:, :, None]
    scores = jnp.where(seen_BS[:, None, None], scores, HIDDEN)
    top = scores.max(axis=-1)
    weights = jnp.exp(scores - top[..., None])
    sums = weights.sum(axis=-1)
    if stack.value_scales is not None:
        weights = weights * _layer(stack.value_scales, layer, length=length)[:, :, None]
    o = product("BKGS,BKSH->BKGH", weights.astype(dtype), value_BKSH)
    return Partial(o, top, sums)


def _layer(part: Float[Array, "L B K S ..."], layer: Int[Array, ""], *, length: int) -> Float[Array, "B K S ..."]:
    """The first ``length`` slots of a layer."""
    sizes = (1, *part.shape[1:3], length, *part.shape[4:])
    return lax.dynamic_slice(part, (layer, *(0,) * (part.ndim - 1)), sizes)[0]
