"""The KV cache: keys and values of every layer, one stack for each kind of layer, that a decode step reads where they are.

A decode step reads the stacks without a change; the new keys and values of all layers are written together at its end.
So a stack is an operand of the loop over layers that no iteration changes, and XLA reads a layer inside the product that needs
it. A stack that each layer writes is copied layer by layer instead: read, written and read again.

Inside ``shard_map``: all lengths are local. B sequences of this device, K key/value heads of this tensor rank, S slots.

Prompts end at the same slot: a sequence whose prompt is ``padding`` tokens shorter than the longest starts ``padding`` slots
later. Its slot ``s`` holds the token at position ``s - padding``. A layer with a window of fewer tokens than a sequence has as
many slots as its window, and position ``p`` is in slot ``p mod S``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.layout import Layout, with_layout_constraint
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from strategies.parallel.mesh import BATCH_AXES, TENSOR

STACK = P(None, BATCH_AXES, TENSOR)
"""``L B/(data, fsdp) K/tensor S H``."""
ROWS = P(BATCH_AXES)
LARGEST = 448.0
"""The largest number of e4m3 (P. Micikevicius et al., "FP8 formats for deep learning", arXiv:2209.05433)."""
TINY = 1e-20
"""Rows of zeros have this largest element, so that nothing is divided by zero."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Stack:
    """Keys and values of layers of one kind."""

    keys: Float[Array, "L B K S H"]
    values: Float[Array, "L B K S H"]
    key_scales: Float[Array, "L B K S"] | None = None
    """The factor of each key of a cache in fp8; values have factors of their own."""
    value_scales: Float[Array, "L B K S"] | None = None

    @property
    def products_dtype(self) -> jnp.dtype:
        """The dtype in which attention multiplies keys and values; fp8 is cast to bf16, which has its values exactly."""
        return jnp.dtype(jnp.bfloat16) if self.key_scales is not None else self.keys.dtype

    @property
    def slots(self) -> int:
        """S."""
        return self.keys.shape[3]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Cache:
    """The cache of a rollout."""

    stacks: tuple[Stack, ...]
    padding_B: Int[Array, " B"]
    """Slots before each sequence's first token."""


CACHE: Any = Cache(STACK, ROWS)
"""PartitionSpecs, as a prefix of the cache's tree."""


@dataclass(frozen=True)
class Place:
    """A position in a stack to write to: the layer and the first sequence."""

    layer: Int[Array, ""]
    sequence: Int[Array, ""] | int


def write_prompts(stack: Stack, kv: Float[Array, "2 b T K H"], place: Place, *, padding_b: Int[Array, " b"] | None) -> Stack:
    """The stack with keys and values of the T tokens of b prompts of one layer; ``padding_b`` moves each prompt to its end."""
    rows = kv.swapaxes(2, 3)
    if padding_b is not None:
        rows = jax.vmap(lambda one, padding: jnp.roll(one, padding, axis=2), in_axes=(1, 0), out_axes=1)(rows, padding_b)
    length, slots = rows.shape[3], stack.slots
    if length > slots:
        rows = jnp.roll(rows[:, :, :, length - slots :], length, axis=3)
    return _written(stack, rows[:, None], (place.layer, place.sequence, 0, 0))


def write_token(stack: Stack, kv: Float[Array, "2 L B K H"], position: Int[Array, ""]) -> Stack:
    """The stack with one token's keys and values of all its layers."""
    return _written(stack, kv[:, :, :, :, None], (0, 0, 0, position % stack.slots))


def _written(stack: Stack, kv: Float[Array, "2 l b K T H"], place: tuple[Any, ...]) -> Stack:
    """XLA for GPU gives the whole stack the layout of untransposed rows, and copies it before and after."""
    update = lax.dynamic_update_slice
    if stack.key_scales is None or stack.value_scales is None:
        kv = with_layout_constraint(kv.astype(stack.keys.dtype), Layout(major_to_minor=tuple(range(kv.ndim))))
        return replace(stack, keys=update(stack.keys, kv[0], (*place, 0)), values=update(stack.values, kv[1], (*place, 0)))
    rows, scales = scaled(kv)
    rows = with_layout_constraint(rows, Layout(major_to_minor=tuple(range(rows.ndim))))
    return Stack(
        keys=update(stack.keys, rows[0], (*place, 0)),
        values=update(stack.values, rows[1], (*place, 0)),
        key_scales=update(stack.key_scales, scales[0], place),
        value_scales=update(stack.value_scales, scales[1], place),
    )


def scaled(x: Float[Array, "... H"]) -> tuple[Float[Array, "... H"], Float[Array, " ..."]]:
    """``x`` in fp8 (e4m3) and a factor per row, with which its largest element is fp8's largest."""
    factors = jnp.maximum(jnp.abs(x.astype(jnp.float32)).max(axis=-1), TINY) / LARGEST
    return (x.astype(jnp.float32) / factors[..., None]).astype(jnp.float8_e4m3fn), factors
