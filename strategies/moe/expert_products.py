"""A token's experts, from its row to the sum of their results: gather, dispatch, three products, combine.

A row's weight multiplies the input of the last product. The backward pass then repeats neither that product nor the
combine: the weights' gradients come from tensors that are kept or repeated before it.

Inside ``shard_map``: all lengths are local. U tokens of the context rank, whole on every tensor rank; R rows of this expert
rank, F the tensor rank's share of an expert's width. The result of a tensor rank is its share of a sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from strategies.moe.interface import Dispatch
from strategies.parallel.custom_gradients import with_backward
from strategies.parallel.linear import Collect
from strategies.parallel.remat import name

Activation = Callable[[Array], Array]


class Operands(NamedTuple):
    """Operands with a gradient."""

    h_UD: Float[Array, "U D"]
    weights_Uk: Float[Array, "U k"]
    gate: Float[Array, "d G F"]
    up: Float[Array, "d G F"]
    down: Float[Array, "d G F"]


@dataclass(frozen=True)
class How:
    """Static parameters."""

    gather: Collect
    activation: Activation


def through_experts(operands: Operands, dispatch: Dispatch, *, how: How) -> Float[Array, "U D"]:
    """Return the weighted sum of each token's expert results, as this tensor rank's share."""
    return with_backward(partial(_forward, how=how), partial(_backward, how=how))(operands, dispatch)


class _Kept(NamedTuple):
    """Residuals: remat keeps ``rows``, ``gate`` and ``up`` where its policy names them."""

    dispatch: Dispatch
    rows_RD: Float[Array, "R D"]
    weights_R: Float[Array, " R"]
    gate_RF: Float[Array, "R F"]
    up_RF: Float[Array, "R F"]
    matrices: tuple[Array, Array, Array]


def _forward(operands: Operands, dispatch: Dispatch, *, how: How) -> tuple[Float[Array, "U D"], _Kept]:
    products = dispatch.products()
    matrices = tuple(how.gather.collect(shard) for shard in (operands.gate, operands.up, operands.down))
    rows_RD = name(dispatch.dispatch(operands.h_UD), "dispatched")
    weights_R = dispatch.dispatch_weights(operands.weights_Uk)
    gate_RF = name(products.up(rows_RD, matrices[0]), "gate")
    up_RF = name(products.up(rows_RD, matrices[1]), "up")
    result_RD = products.down(_entering(gate_RF, up_RF, weights_R, activation=how.activation), matrices[2])
    return dispatch.combine(result_RD), _Kept(dispatch, rows_RD, weights_R, gate_RF, up_RF, matrices)


def _entering(gate_RF: Array, up_RF: Array, weights_R: Array, *, activation: Activation) -> Float[Array, "R F"]:
    """Return the input of the last product, weighted in fp32."""
    wide = activation(gate_RF).astype(jnp.float32) * up_RF.astype(jnp.float32) * weights_R[..., None]
    return wide.astype(gate_RF.dtype)


def _backward(kept: _Kept, dy_UD: Float[Array, "U D"], *, how: How) -> tuple[Operands, None]:
    dispatch, rows_RD, weights_R, gate_RF, up_RF, (gate, up, down) = kept
    products = dispatch.products()
    outer = partial(products.outer, dtype=how.gather.numerics.reduce)
    dy_RD = dispatch.dispatch(dy_UD)
    inner_RF, pullback = jax.vjp(partial(_entering, activation=how.activation), gate_RF, up_RF, weights_R)
    dinner_RF = products.up(dy_RD, down)
    dinner_RF, ddown = lax.optimization_barrier((dinner_RF, outer(dy_RD, inner_RF)))
    dgate_RF, dup_RF, dweights_R = pullback(dinner_RF)
    made = outer(rows_RD, dgate_RF), outer(rows_RD, dup_RF)
    # the rows end before their gradients begin: else they are a fourth buffer beside both products and their sum
    dgate_RF, dup_RF, dgate, dup = lax.optimization_barrier((dgate_RF, dup_RF, *made))
    drows_RD = products.down(dgate_RF, gate) + products.down(dup_RF, up)
    gradients = (how.gather.distribute(gradient) for gradient in (dgate, dup, ddown))
    return Operands(dispatch.combine(drows_RD), dispatch.combine_weights(dweights_R), *gradients), None
