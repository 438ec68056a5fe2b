"""Layers one after another, each with its place in the cache's stacks.

The layers of a model are in loops over periods (``strategies.model.layer_loops``); the cache has a stack for each layer of a
period, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jaxtyping import Array, Float

from strategies.model.decoder import Decoder
from strategies.rollout.cache import Stack

Read = Callable[[Any, Array, Stack, Array], tuple[Array, Array]]
"""``(layer, x_RD, stack, number) -> (x_RD, new keys and values 2 B K H)``."""
Write = Callable[[Any, Array, Stack, Array], tuple[Array, Stack]]
"""``(layer, x_RD, stack, number) -> (x_RD, stack)``."""


def read_through(
    decoder: Decoder, layer: Read, x_RD: Float[Array, "R D"], stacks: tuple[Stack, ...]
) -> tuple[Float[Array, "R D"], list[Float[Array, "2 L B K H"]]]:
    """Through all layers, which do not change the cache; also the new keys and values of every stack."""
    made: list[Array] = []
    for period, own in _loops(decoder, stacks):
        graphs, shards = zip(*(nnx.split(each) for each in period), strict=True)

        def one(x_RD: Array, operands: Any, graphs: Any = graphs, own: Any = own) -> tuple[Array, tuple[Array, ...]]:
            number, shards = operands
            new = []
            for graph, shard, stack in zip(graphs, shards, own, strict=True):
                x_RD, kv = layer(nnx.merge(graph, shard), x_RD, stack, number)
                new.append(kv)
            return x_RD, tuple(new)

        x_RD, new = lax.scan(one, x_RD, (jnp.arange(_layers(own)), shards))
        made += [kv.swapaxes(0, 1) for kv in new]
    return x_RD, made


def write_through(
    decoder: Decoder, layer: Write, x_RD: Float[Array, "R D"], stacks: tuple[Stack, ...]
) -> tuple[Float[Array, "R D"], tuple[Stack, ...]]:
    """Through all layers, each of which writes its stack; the stacks are the loop's carry, so that all is written in place."""
    made: list[Stack] = []
    for period, own in _loops(decoder, stacks):
        graphs, shards = zip(*(nnx.split(each) for each in period), strict=True)

        def one(carry: Any, operands: Any, graphs: Any = graphs) -> tuple[Any, None]:
            x_RD, own = carry
            number, shards = operands
            written = []
            for graph, shard, stack in zip(graphs, shards, own, strict=True):
                x_RD, after = layer(nnx.merge(graph, shard), x_RD, stack, number)
                written.append(after)
            return (x_RD, tuple(written)), None

        (x_RD, after), _ = lax.scan(one, (x_RD, own), (jnp.arange(_layers(own)), shards))
        made += after
    return x_RD, tuple(made)


def _loops(decoder: Decoder, stacks: tuple[Stack, ...]) -> Iterator[tuple[Sequence[Any], tuple[Stack, ...]]]:
    """Each loop's period of layers, with their stacks."""
    periods = decoder.layers if isinstance(decoder.layers, nnx.List) else [[decoder.layers]]
    first = 0
    for period in periods:
        yield period, stacks[first : first + len(period)]
        first += len(period)


def _layers(stacks: tuple[Stack, ...]) -> int:
    return int(jax.tree.leaves(stacks[0])[0].shape[0])
