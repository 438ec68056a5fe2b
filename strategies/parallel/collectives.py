"""The collectives of the step, by name, inside ``shard_map``: all lengths are local.

Every one works on the leading dim, so that the moved data is contiguous in memory, and is no operation at all over axes of
size 1. docs/step.md lists the callers. On a single rank (``strategies.parallel.ranks``) each is a copy of the same size.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

from jax import lax
from jaxtyping import Array, Float, Int, Shaped

from strategies.inputs.step_spec import Numerics
from strategies.parallel import single_rank as stand_ins
from strategies.parallel.ranks import axis_size, is_alone

TILE = 8, 128
"""Rows and columns of a TPU's tile."""


def larger_axes(axes: str | Sequence[str]) -> tuple[str, ...]:
    """Return the axes with more than one rank."""
    names = (axes,) if isinstance(axes, str) else tuple(axes)
    return tuple(axis for axis in names if axis_size(axis) > 1)


def _members(axes: Sequence[str]) -> int:
    return prod(axis_size(axis) for axis in axes)


def all_gather(x: Shaped[Array, "n ..."], axes: str | Sequence[str]) -> Shaped[Array, "N ..."]:
    """Concatenate every rank's ``x`` along the leading dim."""
    axes = larger_axes(axes)
    if is_alone():
        return stand_ins.gathered(x, _members(axes))
    return lax.all_gather(x, axes, tiled=True) if axes else x


def gathered_weight(shard: Float[Array, "n ..."], axes: str | Sequence[str], *, numerics: Numerics) -> Float[Array, "N ..."]:
    """Return the whole weight: rounded to ``numerics.gather``, gathered, and cast to the dtype of the products.

    Where the gather dtype is wider than the products', XLA would cast the weight before the gather and so override the
    strategy; a barrier keeps the cast behind the gather.
    """
    weight = all_gather(shard.astype(numerics.gather), axes)
    if numerics.gather != numerics.compute:
        weight = lax.optimization_barrier(weight)
    return weight.astype(numerics.compute)


def reduce_scatter(x: Float[Array, "N ..."], axes: str | Sequence[str]) -> Float[Array, "n ..."]:
    """Sum over ranks; keep this rank's part of the leading dim. The transpose of ``all_gather``."""
    axes = larger_axes(axes)
    if is_alone():
        return stand_ins.scattered(x, _members(axes))
    return lax.psum_scatter(x, axes, tiled=True) if axes else x


def reduce_scatter_tiles(x: Float[Array, "N m"], axes: str | Sequence[str]) -> Float[Array, "n m"]:
    """``reduce_scatter`` of a matrix whose columns may be of any number, such as a vocabulary's; on TPU as tiles.

    libtpu scatters spans of whole rows, or of an equal part of each row; all other shapes become an all-reduce. A row of
    151936 = 128 x 1187 columns has no equal parts. TPUs hold a matrix in tiles of 8 x 128. Reshaped to tiles, which keeps
    the bytes in place, the array has rows of one tile.
    """
    axes = larger_axes(axes)
    rows, columns = x.shape
    plain = partial(reduce_scatter, axes=axes)
    if is_alone() or not axes or rows % (TILE[0] * _members(axes)) or columns % TILE[1]:
        return plain(x)
    return lax.platform_dependent(x, tpu=lambda x: from_tiles(plain(in_tiles(x))), default=plain)


def in_tiles(x: Shaped[Array, "N m"]) -> Shaped[Array, "R C 8 128"]:
    """A matrix as R x C tiles, as a TPU holds it."""
    return x.reshape(-1, TILE[0], x.shape[1] // TILE[1], TILE[1]).swapaxes(1, 2)


def from_tiles(tiles: Shaped[Array, "R C 8 128"]) -> Shaped[Array, "N m"]:
    """The matrix of such tiles."""
    return tiles.swapaxes(1, 2).reshape(tiles.shape[0] * TILE[0], -1)


def all_reduce(tree: Any, axes: str | Sequence[str]) -> Any:
    """Sum every array of ``tree`` over ranks. Never differentiated through: its transpose would sum twice."""
    axes = larger_axes(axes)
    if is_alone():
        return tree
    return lax.psum(tree, axes) if axes else tree


def all_max(x: Float[Array, ...], axes: str | Sequence[str]) -> Float[Array, ...]:
    """Elementwise maximum over ranks."""
    axes = larger_axes(axes)
    if is_alone():
        return x
    return lax.pmax(x, axes) if axes else x


def shift(x: Shaped[Array, ...], axis: str, *, by: int = 1) -> Shaped[Array, ...]:
    """Send ``x`` to the rank ``by`` places on (around the end), receive that of the rank as many before."""
    size = axis_size(axis)
    if is_alone():
        return stand_ins.moved(x) if by % size else x
    return lax.ppermute(x, axis, [(rank, (rank + by) % size) for rank in range(size)]) if by % size else x


def all_to_all(x: Shaped[Array, "ranks ..."], axis: str) -> Shaped[Array, "ranks ..."]:
    """Send part i of the leading dim to neighbour i, one neighbour per part, and receive part i from it."""
    ranks = x.shape[0]
    if ranks == 1:
        return x
    size = axis_size(axis)
    if is_alone():
        return stand_ins.moved(x)
    groups = [list(range(first, first + ranks)) for first in range(0, size, ranks)]
    whole = None if ranks == size else groups
    return lax.all_to_all(x, axis, split_axis=0, concat_axis=0, tiled=True, axis_index_groups=whole)


class Ragged(NamedTuple):
    """Runs of rows for a ragged all-to-all, several for each rank, in the order of ranks."""

    starts: Int[Array, " runs"]
    """Begin of each run on this rank."""
    sizes: Int[Array, " runs"]
    targets: Int[Array, " runs"]
    """Begin of each run on the receiving rank."""
    arriving: Int[Array, " runs"]
    """Sizes of the runs that come, in the order of the ranks that send them."""


def ragged_all_to_all(
    x: Shaped[Array, "n ..."], into: Shaped[Array, "m ..."], runs: Ragged, axis: str
) -> Shaped[Array, "m ..."]:
    """Send each run to its rank and write received runs into ``into``, whose other rows stay."""
    return lax.ragged_all_to_all(x, into, runs.starts, runs.sizes, runs.targets, runs.arriving, axis_name=axis)
