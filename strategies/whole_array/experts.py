"""The routed experts over whole arrays, as one device would compute them; the compiler decides how rows travel.

The router, the routes and the products are those of ``strategies.moe`` with one expert rank, whose program has no collective;
shardings take the place of the collectives.

* ``dropless``: one sort of all tokens, ragged products of all experts. Only operands and result have a sharding. No dim of a
  sorted array belongs to one device, so the compiler gathers: a plain jit adds this to a mixture.
* ``capacity``: every device's tokens fill their own rows of each expert. The rows are split over tokens, then over experts;
  from these two shardings the compiler derives the all-to-all (Lepikhin et al., GShard, ICLR 2021, section 3.3).

All lengths are global. W = B T tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int, Shaped

from strategies.inputs.step_spec import StepSpec
from strategies.layers.activation import ACTIVATIONS
from strategies.moe.capacity_rows import RowCapacity
from strategies.moe.exchange import exchange
from strategies.moe.expert_products import How, Operands, through_experts
from strategies.moe.fixed_capacity import Capacity
from strategies.moe.interface import Dispatch, as_residual
from strategies.moe.products import Matrices
from strategies.moe.router import choose
from strategies.parallel.mesh import BATCH_AXES, CONTEXT, EXPERT, TENSOR
from strategies.parallel.placement import SPLIT
from strategies.whole_array.products import Matrix
from strategies.whole_array.style import TOKENS, Style

_OTHERS = tuple(axis for axis in BATCH_AXES if axis != EXPERT)
OfGroup = Callable[[Capacity, Array], Array]
"""One direction of the routes of a group."""
_BY_TOKENS = P(_OTHERS, EXPERT, CONTEXT)
"""Groups of tokens, one per device that has tokens of its own."""
_BY_EXPERTS = P(EXPERT, _OTHERS, CONTEXT)
"""Their rows on the devices of each expert."""


class Parameters(NamedTuple):
    """Parameters of the routed experts of one layer."""

    router: Float[Array, "D E"]
    gate: Float[Array, "D E F"]
    up: Float[Array, "D E F"]
    down: Float[Array, "D E F"]


def routed(
    h_BTD: Float[Array, "B T D"], parameters: Parameters, *, spec: StepSpec, style: Style
) -> tuple[Float[Array, "B T D"], Float[Array, ""]]:
    """Return the experts' contribution per token, and the number of dropped rows."""
    inside = partial(_routed, spec=spec, style=style.as_auto)
    return style.inferred(inside, to=(TOKENS, P()))(h_BTD, parameters)


def _routed(
    h_BTD: Float[Array, "B T D"], parameters: Parameters, *, spec: StepSpec, style: Style
) -> tuple[Float[Array, "B T D"], Float[Array, ""]]:
    experts, numerics = spec.model.routed, spec.numerics
    assert experts is not None
    groups = _Groups.of(spec, h_BTD.shape)
    h_WD = groups.flat(h_BTD)
    choice = choose(h_WD, parameters.router, experts=experts, how=Matrix(style, numerics, stored=SPLIT["router"], used=P()))
    dispatch = _dispatch(spec, lax.stop_gradient(choice.experts_Uk), groups=groups, style=style)
    own = Matrix(style, numerics, stored=SPLIT["expert_gate"], used=P(None, EXPERT, TENSOR))
    how = How(own, ACTIVATIONS[spec.model.activation])
    y_WD = through_experts(Operands(h_WD, choice.weights_Uk, *parameters[1:]), dispatch, how=how)
    return groups.whole(y_WD), dispatch.dropped().astype(jnp.float32)


class _Groups(NamedTuple):
    """Sizes in which tokens are split: A data and fsdp ranks, X expert ranks, C context ranks; b sequences of t tokens each."""

    others: int
    experts: int
    context: int
    sequences: int
    length: int

    @classmethod
    def of(cls, spec: StepSpec, shape: tuple[int, ...]) -> _Groups:
        mesh = spec.strategy.mesh
        others = mesh.data * mesh.fsdp
        return cls(others, mesh.expert, mesh.context, shape[0] // (others * mesh.expert), shape[1] // mesh.context)

    @property
    def tokens(self) -> int:
        """Tokens of one group: U."""
        return self.sequences * self.length

    def flat(self, x_BTD: Shaped[Array, "B T D"]) -> Shaped[Array, "W D"]:
        """Tokens by group."""
        parts = x_BTD.reshape(self.others * self.experts, self.sequences, self.context, self.length, -1)
        return parts.swapaxes(1, 2).reshape(-1, x_BTD.shape[-1])

    def whole(self, x_WD: Shaped[Array, "W D"]) -> Shaped[Array, "B T D"]:
        """The inverse of ``flat``."""
        parts = x_WD.reshape(self.others * self.experts, self.context, self.sequences, self.length, -1)
        return parts.swapaxes(1, 2).reshape(-1, self.context * self.length, x_WD.shape[-1])

    def split(self, x: Shaped[Array, "W ..."]) -> Shaped[Array, "A X C U ..."]:
        return x.reshape(self.others, self.experts, self.context, self.tokens, *x.shape[1:])


def _dispatch(spec: StepSpec, experts_Wk: Int[Array, "W k"], *, groups: _Groups, style: Style) -> Dispatch:
    capacity = RowCapacity.of(spec, experts_Wk.shape[0])
    if spec.strategy.moe_dispatch == "dropless":
        return exchange(experts_Wk, capacity=replace(capacity, ranks=1), platform=spec.platform)
    group = replace(capacity, ranks=1, tokens=groups.tokens)
    by_group = _over_groups(partial(Capacity.of, capacity=group))
    return PlacedCapacity(by_group(style.place(groups.split(experts_Wk), _BY_TOKENS)), group, groups, style)


def _over_groups(function: Callable[..., Array]) -> Callable[..., Array]:
    return jax.vmap(jax.vmap(jax.vmap(function)))


@as_residual("routes", static=("capacity", "groups", "style"))
@dataclass(frozen=True)
class PlacedCapacity:
    """Dispatch with a capacity for the tokens of each group.

    Rows are ``E A C X c D``: those of an expert from every group. No two of these dims are joined, since a joint dim would have
    an expert's rows on several devices and the experts of one device apart.
    """

    routes: Capacity
    """The routes of every group, stacked."""
    capacity: RowCapacity
    groups: _Groups
    style: Style

    def _to_experts(self, x: Shaped[Array, "W ..."], *, send: OfGroup) -> Shaped[Array, "E A C X c ..."]:
        groups = self.style.place(self.groups.split(x), _BY_TOKENS)
        sent = self.style.place(_over_groups(send)(self.routes, groups), _BY_TOKENS)
        rows = sent.reshape(*sent.shape[:3], self.capacity.experts, -1, *sent.shape[4:])
        rows = jnp.transpose(rows, (3, 0, 2, 1, *range(4, rows.ndim)))  # E A C X c
        return self.style.place(rows, _BY_EXPERTS)

    def _to_tokens(self, rows: Shaped[Array, "E A C X c ..."], *, receive: OfGroup) -> Shaped[Array, "W ..."]:
        rows = self.style.place(rows, _BY_EXPERTS)
        rows = self.style.place(jnp.transpose(rows, (1, 3, 2, 0, *range(4, rows.ndim))), _BY_TOKENS)  # A X C E c
        came = rows.reshape(*rows.shape[:3], -1, *rows.shape[5:])
        x = self.style.place(_over_groups(receive)(self.routes, came), _BY_TOKENS)
        return x.reshape(-1, *x.shape[4:])

    def dispatch(self, x_WD: Float[Array, "W D"]) -> Float[Array, "E A C X c D"]:
        """Implement ``Dispatch``."""
        return self._to_experts(x_WD, send=Capacity.dispatch)

    def combine(self, rows_RD: Float[Array, "E A C X c D"]) -> Float[Array, "W D"]:
        """Implement ``Dispatch``."""
        return self._to_tokens(rows_RD, receive=Capacity.combine)

    def dispatch_weights(self, weights_Wk: Float[Array, "W k"]) -> Float[Array, "E A C X c"]:
        """Implement ``Dispatch``."""
        return self._to_experts(weights_Wk, send=Capacity.dispatch_weights)

    def combine_weights(self, weights_R: Float[Array, "E A C X c"]) -> Float[Array, "W k"]:
        """Implement ``Dispatch``."""
        return self._to_tokens(weights_R, receive=Capacity.combine_weights)

    def dropped(self) -> Int[Array, ""]:
        """Implement ``Dispatch``."""
        return _over_groups(Capacity.dropped)(self.routes).sum()

    def products(self) -> PlacedProducts:
        """Implement ``Dispatch``."""
        return PlacedProducts()


class PlacedProducts:
    """``strategies.moe.products.EvenProducts`` of rows ``E A C X c D``, whose dims stay apart."""

    def up(self, rows: Float[Array, "E A C X c D"], weights: Matrices) -> Float[Array, "E A C X c F"]:
        """Implement ``Products``."""
        return jnp.einsum("eauxcd,def->eauxcf", rows, weights)

    def down(self, rows: Float[Array, "E A C X c F"], weights: Matrices) -> Float[Array, "E A C X c D"]:
        """Implement ``Products``."""
        return jnp.einsum("eauxcf,def->eauxcd", rows, weights)

    def outer(self, rows: Array, columns: Array, *, dtype: jnp.dtype) -> Matrices:
        """Implement ``Products``."""
        return jnp.einsum("eauxcd,eauxcf->def", rows, columns, preferred_element_type=dtype)
