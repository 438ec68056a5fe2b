"""The rank that a program runs as: one rank of a mesh inside ``shard_map``, or a single rank without the others.

As a single rank (``alone``), sizes and indices of all axes are constants, and every collective is a local copy of the same size
(``strategies.parallel.collectives``): the program of one rank, with a rank's own shapes, on a single device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int


@dataclass(frozen=True)
class Rank:
    """One rank of a mesh: the size of every axis, and its place on each."""

    sizes: Mapping[str, int]
    places: Mapping[str, int]


_ALONE: ContextVar[Rank | None] = ContextVar("alone", default=None)


@contextmanager
def alone(rank: Rank) -> Iterator[None]:
    """Trace the enclosed code as the program of ``rank`` without the others."""
    token = _ALONE.set(rank)
    try:
        yield
    finally:
        _ALONE.reset(token)


def is_alone() -> bool:
    """Whether the other ranks are only thought of."""
    return _ALONE.get() is not None


def axis_size(axis: str) -> int:
    """Ranks of a mesh axis."""
    rank = _ALONE.get()
    return int(lax.axis_size(axis)) if rank is None else rank.sizes[axis]


def axis_index(axis: str) -> Int[Array, ""]:
    """This rank's place on a mesh axis."""
    rank = _ALONE.get()
    return lax.axis_index(axis) if rank is None else jnp.int32(rank.places[axis])
