"""A chunk of a stage's layers, forward and backward, with the tensors of one in a slot until the other.

The forward pass saves what the backward pass of each layer needs: under any remat policy the residuals of the layer's own
derivative, without its weights and the positions of its tokens, which are there again. A slot is written and read one layer
at a time inside the loops over layers, and gradients add up in place there: no copy of a chunk exists.

Inside ``shard_map``: all lengths are local.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from strategies.inputs.step_spec import StepSpec
from strategies.model.layer_loops import loops
from strategies.parallel.remat import remat
from strategies.schemes.documents import TokenFacts

Layer = Callable[[nnx.State, Array, TokenFacts], tuple[Array, Array | None]]
Stash = tuple[tuple[Array, ...], ...]
"""Saved tensors by place in the period: ``[slots, iterations of a chunk, ...]`` each."""


class Visit(NamedTuple):
    """One chunk of one microbatch on its stage."""

    busy: Bool[Array, ""]
    chunk: Int[Array, ""]
    slot: Int[Array, ""]
    facts: TokenFacts
    """Of the microbatch."""


@dataclass(frozen=True, eq=False)
class Stage:
    """The layers of a stage: a period of layers, of which each has its weights stacked over the stage's iterations."""

    layers: tuple[Layer, ...]
    weights: tuple[nnx.State, ...]
    chunks: int

    @classmethod
    def of(cls, spec: StepSpec, layers: Any) -> Stage:
        """The stage's share of a decoder's layers, each under the remat policy."""
        (loop,) = loops(spec)
        period = [layers] if len(loop.period) == 1 else layers[0]
        graphs, weights = zip(*(nnx.split(layer) for layer in period), strict=True)
        return cls(tuple(remat(partial(_apply, graph), loop.policy) for graph in graphs), weights, spec.strategy.virtual_stages)

    @property
    def iterations(self) -> int:
        """Iterations of a chunk."""
        return int(jax.tree.leaves(self.weights)[0].shape[0]) // self.chunks

    def stash(self, slots: int, x_RD: jax.ShapeDtypeStruct, facts: TokenFacts) -> Stash:

        """Empty slots."""
        shapes = jax.eval_shape(lambda x: self._saved(self._at(jnp.int32(0)), x, facts), x_RD)
        return jax.tree.map(lambda leaf: jnp.zeros((slots, self.iterations, *leaf.shape), leaf.dtype), shapes)

    def forward(self, x_RD: Float[Array, "R D"], stash: Stash, visit: Visit) -> tuple[Array, Stash, Array | None]:
        """The output of a chunk, the stash with what its backward pass needs, and the rows that experts dropped."""

        def iteration(carry: tuple[Array, Stash], index: Array) -> tuple[tuple[Array, Stash], Array | None]:
            x_RD, stash = carry
            counts, new = [], []
            for layer, own, slots in zip(self.layers, self._at(self._place(visit, index)), stash, strict=True):
                x_RD, saved, count = _with_saved(layer, own, x_RD, visit.facts)
                new.append(tuple(_put(slot, x, (visit.slot, index)) for slot, x in zip(slots, saved, strict=True)))
                counts.append(count)
            found = [count for count in counts if count is not None]
            return (x_RD, tuple(new)), sum(found[1:], found[0]) if found else None

        (y_RD, stash), counts = lax.scan(iteration, (x_RD, stash), jnp.arange(self.iterations))
        return y_RD, stash, None if counts is None else jnp.where(visit.busy, counts.sum(), 0)

    def backward(
        self, dy_RD: Float[Array, "R D"], stash: Stash, gradients: tuple[nnx.State, ...], visit: Visit
    ) -> tuple[Array, tuple[nnx.State, ...]]:
        """The gradient of a chunk's input, and the sums of gradients with those of its weights."""

        def iteration(carry: Any, index: Array) -> tuple[Any, None]:
            dy_RD, sums = carry
            place, new = self._place(visit, index), list(sums)
            for j, own in reversed(list(enumerate(self._at(place)))):
                saved = [_get(slot, (visit.slot, index)) for slot in stash[j]]
                down, dy_RD = _derivative(self.layers[j], own, saved, dy_RD, visit.facts)
                new[j] = jax.tree.map(partial(_added, place=place, busy=visit.busy), sums[j], down)
            return (dy_RD, tuple(new)), None

        dy_RD = jnp.where(visit.busy, dy_RD, jnp.zeros((), dy_RD.dtype))  # an idle stage has saved tensors of any kind
        backwards = jnp.arange(self.iterations)[::-1]
        return lax.scan(iteration, (dy_RD, gradients), backwards)[0]

    def _place(self, visit: Visit, index: Array) -> Array:
        return visit.chunk * self.iterations + index

    def _at(self, place: Array) -> tuple[nnx.State, ...]:
        """Weights of one iteration."""
        return jax.tree.map(lambda x: lax.dynamic_index_in_dim(x, place, keepdims=False), self.weights)

    def _saved(self, weights: tuple[nnx.State, ...], x_RD: Array, facts: TokenFacts) -> Stash:
        saved = []
        for layer, own in zip(self.layers, weights, strict=True):
            x_RD, kept, _ = _with_saved(layer, own, x_RD, facts)
            saved.append(tuple(kept))
        return tuple(saved)


def _apply(graph: Any, own: nnx.State, x_RD: Array, facts: TokenFacts) -> tuple[Array, Array | None]:
    made: tuple[Array, Array | None] = nnx.merge(graph, own)(x_RD, facts)
    return made


class _Residuals(NamedTuple):
    """A layer's derivative, taken apart."""

    leaves: list[Array]
    tree: Any
    there: list[Array | None]
    """Of each leaf the weight or the position that it is, or the leaf if it is empty; None: it must be saved."""


def _differentiated(layer: Layer, own: nnx.State, x_RD: Array, facts: TokenFacts) -> tuple[Array, _Residuals, Array | None]:
    y_RD, derivative, count = jax.vjp(lambda own, x_RD: layer(own, x_RD, facts), own, x_RD, has_aux=True)
    leaves, tree = jax.tree.flatten(derivative)
    known = jax.tree.leaves((own, facts))
    there = [next((x for x in known if x is leaf), None if leaf.size else leaf) for leaf in leaves]
    return y_RD, _Residuals(leaves, tree, there), count


def _with_saved(layer: Layer, own: nnx.State, x_RD: Array, facts: TokenFacts) -> tuple[Array, list[Array], Array | None]:
    y_RD, residuals, count = _differentiated(layer, own, x_RD, facts)
    return y_RD, [leaf for leaf, there in zip(residuals.leaves, residuals.there, strict=True) if there is None], count


def _derivative(
    layer: Layer, own: nnx.State, saved: list[Array], dy_RD: Array, facts: TokenFacts
) -> tuple[nnx.State, Float[Array, "R D"]]:
    """Gradients of the weights and of the input.

    The layer is traced once more for the form of its derivative; nothing reads its values, so no compiler keeps them.
    """
    _, (_, tree, there), _ = _differentiated(layer, own, jnp.zeros_like(dy_RD), facts)
    kept = iter(saved)
    down, dx_RD = tree.unflatten([next(kept) if leaf is None else leaf for leaf in there])(dy_RD)
    return down, dx_RD


def _put(slots: Array, x: Array, at: tuple[Array, Array]) -> Array:
    return lax.dynamic_update_slice(slots, x[None, None], (*at, *(0,) * x.ndim))


def _get(slots: Array, at: tuple[Array, Array]) -> Array:
    shape = slots.shape[2:]
    return lax.dynamic_slice(slots, (*at, *(0,) * len(shape)), (1, 1, *shape)).reshape(shape)


def _added(total: Array, gradient: Array, *, place: Array, busy: Array) -> Array:
    """The sum in place; an idle stage adds nothing, whatever its derivative is."""
    own = lax.dynamic_index_in_dim(total, place, keepdims=False)
    return lax.dynamic_update_index_in_dim(total, own + jnp.where(busy, gradient, 0), place, 0)
