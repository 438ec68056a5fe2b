"""The shared experts of every token: one dense gated product next to the routed ones, of already gathered rows.

Its result is a share of a sum, like that of the routed experts, so that one reduction over tensor serves both.

Inside ``shard_map``: all lengths are local. U tokens of the context rank, whole on every tensor rank; F the tensor rank's share
of the shared width.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from strategies.moe.expert_products import Activation, How
from strategies.parallel.custom_gradients import with_backward
from strategies.parallel.linear import weight_gradient
from strategies.parallel.remat import name


class SharedOperands(NamedTuple):
    """Operands with a gradient."""

    h_UD: Float[Array, "U D"]
    weights_U: Float[Array, " U"] | None
    """Weights of each token's result; None: no weights."""
    gate: Float[Array, "d F"]
    up: Float[Array, "d F"]
    down: Float[Array, "d F"]


def through_shared(operands: SharedOperands, *, how: How) -> Float[Array, "U D"]:
    """Return the shared experts' contribution per token, as this tensor rank's share."""
    return with_backward(partial(_forward, how=how), partial(_backward, how=how))(operands)


def weighed(h_UD: Float[Array, "U D"], gate_D: Float[Array, " D"]) -> Float[Array, " U"]:
    """The sigmoid that weighs each token's result, fp32."""
    return jax.nn.sigmoid(h_UD.astype(jnp.float32) @ gate_D)


class _Kept(NamedTuple):
    h_UD: Float[Array, "U D"]
    weights_U: Float[Array, " U"] | None
    gate_UF: Float[Array, "U F"]
    up_UF: Float[Array, "U F"]
    matrices: tuple[Array, Array, Array]


def _forward(operands: SharedOperands, *, how: How) -> tuple[Float[Array, "U D"], _Kept]:
    matrices = tuple(how.gather.collect(shard) for shard in (operands.gate, operands.up, operands.down))
    gate_UF = name(operands.h_UD @ matrices[0], "gate")
    up_UF = name(operands.h_UD @ matrices[1], "up")
    inner_UF = _entering(gate_UF, up_UF, operands.weights_U, activation=how.activation)
    return inner_UF @ matrices[2].T, _Kept(operands.h_UD, operands.weights_U, gate_UF, up_UF, matrices)


def _entering(gate_UF: Array, up_UF: Array, weights_U: Array | None, *, activation: Activation) -> Float[Array, "U F"]:
    """Return the input of the last product; weights are applied in fp32."""
    inner_UF = activation(gate_UF) * up_UF
    return inner_UF if weights_U is None else (inner_UF.astype(jnp.float32) * weights_U[:, None]).astype(inner_UF.dtype)


def _backward(kept: _Kept, dy_UD: Float[Array, "U D"], *, how: How) -> tuple[SharedOperands]:
    h_UD, weights_U, gate_UF, up_UF, (gate, up, down) = kept
    gradient = partial(weight_gradient, how=how.gather)
    inner_UF, pullback = jax.vjp(partial(_entering, activation=how.activation), gate_UF, up_UF, weights_U)
    dinner_UF, ddown = lax.optimization_barrier((dy_UD @ down, gradient(dy_UD, inner_UF, like=down)))
    dgate_UF, dup_UF, dweights_U = pullback(dinner_UF)
    dh_UD = dgate_UF @ gate.T + dup_UF @ up.T
    made = gradient(h_UD, dgate_UF, like=gate), gradient(h_UD, dup_UF, like=up)
    dh_UD, (dgate, dup) = lax.optimization_barrier((dh_UD, made))
    return (SharedOperands(dh_UD, dweights_U, *(how.gather.distribute(gradient) for gradient in (dgate, dup, ddown))),)
