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


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Stack:
    """Keys and values of layers of one kind."""

    keys: Float[Array, "L B K S H"]
    values: Float[Array, "L B K S H"]

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
    return _each(stack, rows, lambda old, new: _write_prompt(old, new, place))


def _write_prompt(stack: Array, rows: Float[Array, "b K T H"], place: Place) -> Array:
    """XLA for GPU gives the whole stack the layout of untransposed rows, and copies it before and after."""
    rows = rows.astype(stack.dtype)[None]
    rows = with_layout_constraint(rows, Layout(major_to_minor=tuple(range(rows.ndim))))
    return lax.dynamic_update_slice(stack, rows, (place.layer, place.sequence, 0, 0, 0))


def write_token(stack: Stack, kv: Float[Array, "2 L B K H"], position: Int[Array, ""]) -> Stack:
    """The stack with one token's keys and values of all its layers."""
    slot = position % stack.slots
    return _each(
        stack,
        kv[:, :, :, :, None],
        lambda old, new: lax.dynamic_update_slice(old, new.astype(old.dtype), (0, 0, 0, slot, 0)),
    )


def _each(stack: Stack, kv: Array, written: Any) -> Stack:
    return replace(stack, keys=written(stack.keys, kv[0]), values=written(stack.values, kv[1]))
