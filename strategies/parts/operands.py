"""Operands of a part, and the function before jit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from jax.sharding import PartitionSpec as P
from jaxtyping import Array

from lcplan.parts import Placed


class Operand(NamedTuple):
    """One array: its global shape and its sharding."""

    shape: tuple[int, ...]
    split: P


class Traced(NamedTuple):
    """A part over whole arrays."""

    function: Callable[..., Array]
    operands: tuple[Operand, ...]
    result: P


def spec_of(placed: Placed) -> P:
    """Return the sharding as jax writes it."""
    return P(*(axes or None for axes in placed.axes))


def operand(placed: Placed, sizes: Mapping[str, int]) -> Operand:
    """Return the array of these dims."""
    return Operand(tuple(sizes[dim] for dim in placed.dims), spec_of(placed))
