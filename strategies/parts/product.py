"""One product, or a feed-forward's two, in each sharding mode.

* ``auto``: the operands' and the result's shardings, and nothing else.
* ``explicit``: dims that the types would leave open are gathered by ``reshard``, sums get their ``out_sharding``.
* ``manual``: the collectives that ``lcplan.parts.moves`` derives, written out; those over tensor as collective matmuls where
  the strategy has them.

Inside ``shard_map`` all lengths are local.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float

from lcplan.parts import Move, Part, Product, moves
from lcplan.strategy import CollectiveMatmul, Strategy
from strategies.parallel.collective_matmul import all_reduced, joined, scattered, visited
from strategies.parallel.mesh import TENSOR
from strategies.parallel.ranks import axis_index, axis_size
from strategies.parts.operands import Traced, operand, spec_of


def products(part: Part, strategy: Strategy, mesh: Mesh, **_: Any) -> Traced:
    """``A[B D] W[D F]``, and with a second product GELU between them."""
    each = part.products()
    entering = each[0][0].left
    operands = operand(entering, part.sizes), *(operand(product.right, sizes) for product, sizes in each)
    result = spec_of(each[-1][0].result)
    if strategy.sharding_mode == "manual":
        plans = tuple((product, moves(product, strategy.mesh)) for product, _ in each)
        inside = partial(_chain, multiply=[partial(_by_hand, plan=plan, ways=strategy.collective_matmul) for plan in plans])
        splits = tuple(one.split for one in operands)
        return Traced(jax.shard_map(inside, mesh=mesh, in_specs=splits, out_specs=result, check_vma=False), operands, result)
    multiply = jnp.matmul if strategy.sharding_mode == "auto" else None
    steps = [multiply or partial(_typed, product=product, mesh=mesh) for product, _ in each]
    return Traced(partial(_chain, multiply=steps), operands, result)


def _chain(x: Array, *weights: Array, multiply: list[Any]) -> Array:
    """Multiply by each weight in turn; GELU before all except the first."""
    for index, (weight, times) in enumerate(zip(weights, multiply, strict=True)):
        x = times(jax.nn.gelu(x) if index else x, weight)
    return x


def _typed(x: Float[Array, "B D"], weight: Float[Array, "D F"], *, product: Product, mesh: Mesh) -> Float[Array, "B F"]:
    """The product in explicit mode: contracted dims are split alike, and the result's sharding is stated."""
    left, right, result = product
    inner = tuple(axis for axis in left.over("D") if axis in right.over("D"))
    rows = tuple(axis for axis in left.over("B") if axis in result.over("B"))
    x = jax.sharding.reshard(x, NamedSharding(mesh, P(rows or None, inner or None)))
    weight = jax.sharding.reshard(weight, NamedSharding(mesh, P(inner or None, right.over("F") or None)))
    return jnp.matmul(x, weight, out_sharding=NamedSharding(mesh, spec_of(result)))


def _by_hand(x: Array, weight: Array, *, plan: tuple[Product, tuple[Move, ...]], ways: CollectiveMatmul) -> Array:
    """Gather the missing parts, multiply, and sum; the innermost axis of a dim is gathered first and scattered last."""
    found = plan[1]
    travels = next((one for one in found if ways != "off" and one.axis == TENSOR and one.moved != "weight"), None)
    whole = [one for one in found if one is not travels]
    for move in reversed(whole):
        if move.moved == "weight":
            weight = lax.all_gather(weight, move.axis, tiled=True)
        elif move.moved != "result":
            x = lax.all_gather(x, move.axis, axis=0 if move.moved == "rows" else 1, tiled=True)
    y = jnp.matmul(x, weight) if travels is None else _ring(x, weight, move=travels, ways=ways)
    return reduce(_summed, [one for one in whole if one.moved == "result"], y)


def _summed(y: Array, move: Move) -> Array:
    if move.op == "all-reduce":
        return lax.psum(y, move.axis)
    return lax.psum_scatter(y, move.axis, scatter_dimension=0 if move.dim == "B" else 1, tiled=True)


def _ring(x: Array, weight: Array, *, move: Move, ways: CollectiveMatmul) -> Array:
    """The product as a collective matmul over tensor."""
    if move.moved == "rows":
        return joined(visited(x, lambda _, piece: jnp.matmul(piece, weight), ways=ways)[1])
    if move.moved == "inner":
        return _accumulated(x, weight, ways=ways)
    if move.op == "all-reduce":
        return all_reduced(x, weight, ways=ways)
    if move.dim == "B":
        return scattered(lambda offset: jnp.matmul(_piece(x, offset, dim=0), weight), ways)
    return scattered(lambda offset: jnp.matmul(x, _piece(weight, offset, dim=1)), ways)


def _accumulated(x: Float[Array, "B d"], weight: Float[Array, "D F"], *, ways: CollectiveMatmul) -> Float[Array, "B F"]:
    """Pieces of the inner dim times their rows of the weight, added up in fp32 in the order of their arrival."""
    sums: list[Array] = []

    def visit(offset: int, piece: Float[Array, "B d"]) -> Float[Array, "B F"]:
        share = jnp.matmul(piece, _piece(weight, offset, dim=0), preferred_element_type=jnp.float32)
        sums.append(share if not sums else sums[-1] + share)
        return sums[-1]

    visited(x, visit, ways=ways)
    return sums[-1].astype(x.dtype)


def _piece(x: Array, offset: int, *, dim: int) -> Array:
    """The part of ``dim`` that is the piece of ``offset`` (see ``strategies.parallel.collective_matmul``)."""
    size = x.shape[dim] // axis_size(TENSOR)
    return lax.dynamic_slice_in_dim(x, (axis_index(TENSOR) - offset) % axis_size(TENSOR) * size, size, axis=dim)
