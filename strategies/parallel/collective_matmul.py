"""Collective matmul: a product and its collective over tensor, cut into one piece per rank, which travel round the ring.

Instead of a gather and then a product, the rows travel and each piece is multiplied on arrival (``visited``); instead of
a product and then a reduce-scatter, the sums travel and each rank adds its share (``scattered``). An all-reduce is both, one
after the other (``all_reduced``).
A piece's place is its *offset*: of rank r, offset o is the piece of rank ``(r - o) mod t``, so that every rank runs the same
program and nothing is sliced by rank. Two-way, half of the pieces travel either way round at once: as many hops, half as long
a journey.

Inside ``shard_map``: all lengths are local. R rows of the residual stream on each of t ranks, U = t R.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from lcplan.strategy import CollectiveMatmul
from strategies.parallel.collectives import shift
from strategies.parallel.mesh import TENSOR
from strategies.parallel.ranks import axis_index, axis_size

Pieces = tuple[Float[Array, "R ..."], ...]
"""One piece of each rank, by offset: the whole is ``U ...``."""
Visit = TypeVar("Visit")
TILES = 2
"""Tiles of columns of an all-reduced product: with more, products get small and the last tile's pieces hardly smaller."""


def rings(ways: CollectiveMatmul) -> bool:
    """Whether products over the tensor axis go round a ring here."""
    return ways != "off" and axis_size(TENSOR) > 1


def journeys(ranks: int, ways: CollectiveMatmul) -> tuple[int, int]:
    """Hops towards higher ranks and towards lower ones; together every other rank is reached.

    >>> journeys(8, "one-way"), journeys(8, "two-way")
    ((7, 0), (4, 3))
    """
    up = ranks - 1 if ways == "one-way" else ranks // 2
    return up, ranks - 1 - up


def _hop(x: Float[Array, "..."], step: int) -> Float[Array, "..."]:
    return shift(x, TENSOR, by=step)


def visited(
    x_RD: Float[Array, "R D"], visit: Callable[[int, Float[Array, "R D"]], Visit], *, ways: CollectiveMatmul
) -> tuple[Pieces, tuple[Visit, ...]]:
    """Return every rank's rows and the results of ``visit(offset, rows)``, computed while the next rows travel; by offset.

    One-way, offset o arrives with hop o. Two-way, offset -o comes the other way at the same time. A hop does not set out
    before the visit of the rows before is over: nothing else would keep a compiler from sending all rows first.
    """
    size = axis_size(TENSOR)
    up, down = journeys(size, ways)
    directions = {1: (0, x_RD), -1: (0, x_RD)}
    waiting, pieces, made = {0: x_RD}, {0: x_RD}, {}
    for hop in range(1, max(up, down) + 1):
        going = [step for step, hops in ((1, up), (-1, down)) if hop <= hops]
        coming = {(directions[step][0] + step) % size: _hop(directions[step][1], step) for step in going}
        seen = {offset: visit(offset, piece) for offset, piece in waiting.items()}
        waiting, seen = lax.optimization_barrier((coming, seen))
        reached = {step: (directions[step][0] + step) % size for step in going}
        directions.update({step: (offset, waiting[offset]) for step, offset in reached.items()})
        pieces.update(waiting)
        made.update(seen)
    made.update({offset: visit(offset, piece) for offset, piece in waiting.items()})
    return tuple(pieces[offset] for offset in range(size)), tuple(made[offset] for offset in range(size))


def scattered(part: Callable[[int], Float[Array, "R D"]], ways: CollectiveMatmul) -> Float[Array, "R D"]:
    """Return the sum over ranks of their shares for this rank: ``part(o)`` is this rank's share of the rows of offset o.

    Sums start at the farthest rank. A product does not wait for the sum that it joins, so that the hop overlaps with it.
    """
    size = axis_size(TENSOR)
    up, down = journeys(size, ways)
    sums: dict[int, Array] = {}
    for hop in range(max(up, down), 0, -1):
        for step, hops in ((1, up), (-1, down)):
            if hop <= hops:
                own = _apart(part((-step * hop) % size))
                sums[step] = _hop(own if hop == hops else sums[step] + own, step)
    total = _apart(part(0))
    for arrived in sums.values():
        total = total + arrived
    return total


def all_reduced(x_UD: Float[Array, "U D"], weight_DF: Float[Array, "D F"], *, ways: CollectiveMatmul) -> Float[Array, "U F"]:
    """Return ``x W`` summed over ranks, which share D, on every rank.

    Pieces of the rows are scattered and then gathered, one tile of columns after the other. The products of a tile are the
    visits of the complete pieces of the tile before, so that these travel at the same time; left to itself, XLA gathers all
    tiles in the end. Only the pieces of the last tile have no product next to them.
    """
    pieces, (first, *rest) = parted(x_UD), jnp.array_split(weight_DF, TILES, axis=1)
    own_RF, tiles = scattered(lambda offset: pieces[offset] @ first, ways), []
    order = dict(zip(_arrivals(len(pieces), ways), _needs(len(pieces), ways), strict=True))
    for weight in rest:
        complete, products = visited(own_RF, partial(_in_order, pieces, weight, order), ways=ways)
        tiles.append(joined(complete))
        made = {order[arrived]: product for arrived, product in enumerate(products)}
        own_RF = scattered(made.__getitem__, ways)
    return jnp.concatenate([*tiles, joined(visited(own_RF, lambda *_: (), ways=ways)[0])], axis=1)


def _in_order(
    pieces: Pieces, weight: Float[Array, "D F"], order: Mapping[int, int], arrived: int, _: Array
) -> Float[Array, "R F"]:
    return pieces[order[arrived]] @ weight


def _arrivals(ranks: int, ways: CollectiveMatmul) -> list[int]:
    """Offsets in the order in which ``visited`` visits them."""
    up, down = journeys(ranks, ways)
    return [0, *(step * hop % ranks for hop in range(1, up + 1) for step, hops in ((1, up), (-1, down)) if hop <= hops)]


def _needs(ranks: int, ways: CollectiveMatmul) -> list[int]:
    """Offsets in the order in which ``scattered`` needs their products.

    >>> _needs(4, "one-way"), _needs(4, "two-way")
    ([1, 2, 3, 0], [2, 3, 1, 0])
    """
    up, down = journeys(ranks, ways)
    far = (-step * hop % ranks for hop in range(up, 0, -1) for step, hops in ((1, up), (-1, down)) if hop <= hops)
    return [*far, 0]


def _apart(product: Float[Array, "R D"]) -> Float[Array, "R D"]:
    """Not to be merged with the sum that follows: a product that starts from a sum would wait for its hop."""
    return lax.optimization_barrier(product)


def joined(pieces: Sequence[Float[Array, "R ..."]]) -> Float[Array, "U ..."]:
    """All ranks' pieces as rows in order: offset o of rank r is block ``(r - o) mod t``."""
    own, size = axis_index(TENSOR), len(pieces)
    rows = pieces[0].shape[0]
    whole = jnp.empty((size * rows, *pieces[0].shape[1:]), pieces[0].dtype)
    for offset, piece in enumerate(pieces):
        whole = lax.dynamic_update_slice_in_dim(whole, piece, (own - offset) % size * rows, axis=0)
    return whole


def parted(whole: Float[Array, "U ..."]) -> Pieces:
    """The inverse of ``joined``."""
    own, size = axis_index(TENSOR), axis_size(TENSOR)
    rows = whole.shape[0] // size
    return tuple(lax.dynamic_slice_in_dim(whole, (own - offset) % size * rows, rows, axis=0) for offset in range(size))
