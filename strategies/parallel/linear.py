"""The two tensor-parallel products of a layer, each with its FSDP gather: ``column`` (in) and ``row`` (out).

Each has a backward pass of its own, so that all its communication is visible in one place:

* The weight gathered in the forward pass is a residual that no remat policy names. The backward pass gathers it again
  (ZeRO-3), once, for the recomputed product and for the gradient of its input together.
* The weight's gradient leaves its product in ``reduce`` dtype and is reduce-scattered at once: a whole gradient of one
  matrix lives only between these two operations, and fp32 sums never pass through bf16.

Inside ``shard_map``: all lengths are local. R rows of the residual stream (sequence-sharded over tensor), U = R * tensor
tokens of the context rank. Matrices are stored D first; the dims after D are flat in the products.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from lcplan.strategy import CollectiveMatmul
from strategies.inputs.step_spec import Numerics
from strategies.parallel.collective_matmul import Pieces, parted, rings, scattered, visited
from strategies.parallel.collectives import all_gather, gathered_weight, reduce_scatter
from strategies.parallel.custom_gradients import with_backward
from strategies.parallel.mesh import STATE_AXES, TENSOR
from strategies.parallel.ranks import axis_index, axis_size

Columns = tuple[Float[Array, "U ..."] | Pieces, ...]
Shards = tuple[Float[Array, "d ..."], ...]


class Collect(Protocol):
    """How a matrix, stored in shards, gets to its product and its gradient back."""

    @property
    def numerics(self) -> Numerics:
        """Dtypes."""

    def collect(self, shard: Float[Array, "d ..."]) -> Float[Array, "D ..."]:
        """Return the matrix for its product."""

    def distribute(self, gradient: Float[Array, "D ..."]) -> Float[Array, "d ..."]:
        """The transpose: return the gradient as the matrix is stored."""


@dataclass(frozen=True)
class Gather:
    """How a device gathers the shard of a matrix, whose leading dim D is split, for its product."""

    numerics: Numerics
    axes: tuple[str, ...] = STATE_AXES
    heads: int | None = None
    """Number of KV heads, where tensor ranks outnumber them: all are gathered, each rank keeps one (dim 2)."""

    def collect(self, shard: Float[Array, "d ..."]) -> Float[Array, "D ..."]:
        """Round, gather, and keep this rank's head."""
        weight = gathered_weight(shard, self.axes, numerics=self.numerics)
        return weight if self.heads is None else lax.dynamic_slice_in_dim(weight, own_head(self.heads), 1, axis=2)

    def distribute(self, gradient: Float[Array, "D ..."]) -> Float[Array, "d ..."]:
        """The transpose of ``collect``: sum over ranks, keep the shard, in its dtype."""
        if self.heads is not None:
            shape = (*gradient.shape[:2], self.heads, *gradient.shape[3:])
            gradient = lax.dynamic_update_slice_in_dim(jnp.zeros(shape, gradient.dtype), gradient, own_head(self.heads), axis=2)
        return reduce_scatter(gradient, self.axes).astype(self.numerics.stored)


def own_head(heads: int) -> Array:
    """Which of ``heads`` KV heads this tensor rank attends to, where ranks outnumber heads."""
    return axis_index(TENSOR) * heads // axis_size(TENSOR)


def _flat(x: Float[Array, "n ..."]) -> Float[Array, "n X"]:
    return x.reshape(x.shape[0], -1)


def column(h_RD: Float[Array, "R D"], shards: Shards, *, how: tuple[Gather, ...], ways: CollectiveMatmul = "off") -> Columns:
    """Gather the rows over tensor and multiply them by each matrix, whose columns are split over tensor: ``y = h W``.

    As a collective matmul each product is ``Pieces`` (``strategies.parallel.collective_matmul``), else one array.
    """
    if rings(ways):
        forward, backward = (
            partial(_ring_column_forward, how=how, ways=ways),
            partial(_ring_column_backward, how=how, ways=ways),
        )
        return with_backward(forward, backward)(h_RD, shards)
    return with_backward(partial(_column_forward, how=how), partial(_column_backward, how=how))(h_RD, shards)


def _column_forward(h_RD: Float[Array, "R D"], shards: Shards, *, how: tuple[Gather, ...]) -> tuple[Columns, Any]:
    h_UD = all_gather(h_RD, TENSOR)
    weights = tuple(gather.collect(shard) for gather, shard in zip(how, shards, strict=True))
    return tuple(_times(h_UD, weight) for weight in weights), (h_UD, weights)


def _column_backward(residuals: Any, dys: Columns, *, how: tuple[Gather, ...]) -> tuple[Float[Array, "R D"], Shards]:
    h_UD, weights = residuals
    dh_RD = reduce_scatter(sum(_flat(dy) @ _flat(weight).T for dy, weight in zip(dys, weights, strict=True)), TENSOR)
    dweights = [
        weight_gradient(h_UD, dy, like=weight, how=gather) for gather, weight, dy in zip(how, weights, dys, strict=True)
    ]
    return _distributed(dh_RD, dweights, how=how)


def _ring_column_forward(
    h_RD: Float[Array, "R D"], shards: Shards, *, how: tuple[Gather, ...], ways: CollectiveMatmul
) -> tuple[Columns, Any]:
    """Each piece of the rows is multiplied when it is there; all of them stay, for the weights' gradients."""
    weights = tuple(gather.collect(shard) for gather, shard in zip(how, shards, strict=True))
    pieces, products = visited(h_RD, lambda _, piece: tuple(_times(piece, weight) for weight in weights), ways=ways)
    return tuple(zip(*products, strict=True)), (pieces, weights)


def _ring_column_backward(
    residuals: Any, dys: Columns, *, how: tuple[Gather, ...], ways: CollectiveMatmul
) -> tuple[Float[Array, "R D"], Shards]:
    """The mirror image: the rows' gradients are sums that travel; the weights' are sums over pieces."""
    pieces, weights = residuals

    def part(offset: int) -> Float[Array, "R D"]:
        return sum(_flat(dy[offset]) @ _flat(weight).T for dy, weight in zip(dys, weights, strict=True))

    dh_RD = scattered(part, ways)
    dweights = [_ring_gradient(pieces, dy, like=w, how=gather) for gather, w, dy in zip(how, weights, dys, strict=True)]
    return _distributed(dh_RD, dweights, how=how)


def _distributed(dh_RD: Float[Array, "R D"], dweights: list[Array], *, how: tuple[Gather, ...]) -> tuple[Array, Shards]:
    dh_RD, dweights = lax.optimization_barrier((dh_RD, dweights))
    return dh_RD, tuple(gather.distribute(dweight) for gather, dweight in zip(how, dweights, strict=True))


def row(
    y: Float[Array, "U ..."] | Pieces, shard: Float[Array, "d ..."], *, how: Gather, ways: CollectiveMatmul = "off"
) -> Float[Array, "R D"]:
    """Multiply by a matrix whose inputs are split over tensor, and reduce-scatter the sums to the rows: ``x = y W^T``."""
    if rings(ways):
        pieces = y if isinstance(y, tuple) else parted(y)
        forward, backward = partial(_ring_row_forward, how=how, ways=ways), partial(_ring_row_backward, how=how, ways=ways)
        return with_backward(forward, backward)(pieces, shard)
    return with_backward(partial(_row_forward, how=how), partial(_row_backward, how=how))(y, shard)


def _row_forward(y: Float[Array, "U ..."], shard: Float[Array, "d ..."], *, how: Gather) -> tuple[Float[Array, "R D"], Any]:
    weight = how.collect(shard)
    return reduce_scatter(_flat(y) @ _flat(weight).T, TENSOR), (y, weight)


def _row_backward(
    residuals: Any, dx_RD: Float[Array, "R D"], *, how: Gather
) -> tuple[Float[Array, "U ..."], Float[Array, "d ..."]]:
    y, weight = residuals
    dx_UD = all_gather(dx_RD, TENSOR)
    dx_UD, dweight = lax.optimization_barrier(
        (dx_UD, weight_gradient(dx_UD, y, like=weight, how=how))
    )  # y ends before dy begins
    return (dx_UD @ _flat(weight)).reshape(y.shape), how.distribute(dweight)


def _ring_row_forward(
    y: Pieces, shard: Float[Array, "d ..."], *, how: Gather, ways: CollectiveMatmul
) -> tuple[Float[Array, "R D"], Any]:
    weight = how.collect(shard)
    return scattered(lambda offset: _flat(y[offset]) @ _flat(weight).T, ways), (y, weight)


def _ring_row_backward(
    residuals: Any, dx_RD: Float[Array, "R D"], *, how: Gather, ways: CollectiveMatmul
) -> tuple[Pieces, Float[Array, "d ..."]]:
    """Send the cotangent's pieces while the products compute the weight's gradient."""
    y, weight = residuals
    dxs, parts = visited(dx_RD, lambda offset, piece: weight_gradient(piece, y[offset], like=weight, how=how), ways=ways)
    dxs, dweight = lax.optimization_barrier((dxs, sum(parts[1:], start=parts[0])))
    return tuple(_times(dx, weight) for dx in dxs), how.distribute(dweight)


def _times(h_RD: Float[Array, "R D"], weight: Float[Array, "D ..."]) -> Float[Array, "R ..."]:
    return (h_RD @ _flat(weight)).reshape(-1, *weight.shape[1:])


def _ring_gradient(pieces: Pieces, dys: Pieces, *, like: Float[Array, "D ..."], how: Gather) -> Float[Array, "D ..."]:
    parts = [weight_gradient(piece, dy, like=like, how=how) for piece, dy in zip(pieces, dys, strict=True)]
    return sum(parts[1:], start=parts[0])


def weight_gradient(
    h_UD: Float[Array, "U D"], dy: Float[Array, "U ..."], *, like: Float[Array, "D ..."], how: Collect
) -> Float[Array, "D ..."]:
    """The whole gradient of a matrix, before any reduction.

    Callers tie it to the next value of the backward pass. Nothing else waits for it, so the compiler would leave all of a
    layer's gradients to the end, and keep every operand of theirs alive till then: 1 GB of Llama 3 8B's layer at 16384 tokens.
    """
    return jnp.matmul(h_UD.T, _flat(dy), preferred_element_type=how.numerics.reduce).reshape(like.shape)
