"""A chunk of a stage's layers, forward and backward, with the tensors of one in a slot until the other.

The forward pass saves the residuals of each layer's own derivative under any remat policy, without its weights and the
positions of its tokens, which the backward pass has. A slot is written and read one layer
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
from strategies.parallel.mesh import PIPE
from strategies.parallel.ranks import axis_index
from strategies.parallel.remat import remat
from strategies.schemes.documents import TokenFacts

Layer = Callable[[nnx.State, Array, TokenFacts], tuple[Array, Array | None]]
HOST = jax.memory.Space.Host
Stash = tuple[tuple[Array, ...], ...]
"""Saved tensors by place in the period: ``[slots x iterations of a chunk, ...]`` each. One dim: libtpu moves slices to and
from the host's memory along one only."""


class Visit(NamedTuple):
    """One chunk of one microbatch on its stage."""

    busy: Bool[Array, ""]
    chunk: Int[Array, ""]
    slot: Int[Array, ""]
    facts: TokenFacts
    """Positions and documents of the microbatch."""


@dataclass(frozen=True, eq=False)
class Stage:
    """The layers of a stage: a period of layers, of which each has its weights stacked over the stage's iterations."""

    layers: tuple[Layer, ...]
    weights: tuple[nnx.State, ...]
    chunks: int
    stages: int
    """Virtual stages."""
    filled: int
    """Iterations of all stages together that have layers; the others pass their input on."""

    @classmethod
    def of(cls, spec: StepSpec, layers: Any) -> Stage:
        """The stage's share of a decoder's layers, each under the remat policy."""
        (loop,) = loops(spec)
        period = [layers] if len(loop.period) == 1 else layers[0]
        graphs, weights = zip(*(nnx.split(layer) for layer in period), strict=True)
        own = tuple(remat(partial(_apply, graph), loop.policy) for graph in graphs)
        return cls(own, weights, spec.stages // spec.strategy.mesh.pipe, spec.stages, spec.model.layers // len(loop.period))

    @property
    def iterations(self) -> int:
        """Iterations of a chunk."""
        return int(jax.tree.leaves(self.weights)[0].shape[0]) // self.chunks

    def stash(self, slots: int, x_RD: jax.ShapeDtypeStruct, facts: TokenFacts) -> Stash:
        """Empty slots."""
        traced, shapes = jax.make_jaxpr(lambda x: self._saved(self._at(jnp.int32(0)), x, facts), return_shape=True)(x_RD)
        made = [_empty((slots * self.iterations, *leaf.shape), leaf) for leaf in traced.out_avals]
        return jax.tree.unflatten(jax.tree.structure(shapes), made)

    def forward(self, x_RD: Float[Array, "R D"], stash: Stash, visit: Visit) -> tuple[Array, Stash, Array | None]:
        """The output of a chunk, the stash with the tensors of its backward pass, and the rows that experts dropped."""

        def iteration(carry: tuple[Array, Stash], index: Array) -> tuple[tuple[Array, Stash], Array | None]:
            (x_RD, stash), filled = carry, self._filled(visit, index)
            counts, new = [], []
            for layer, own, slots in zip(self.layers, self._at(self._place(visit, index)), stash, strict=True):
                y_RD, saved, count = _with_saved(layer, own, x_RD, visit.facts)
                new.append(
                    tuple(_put(all_, x, visit.slot * self.iterations + index) for all_, x in zip(slots, saved, strict=True))
                )
                x_RD = _where(filled, y_RD, x_RD)
                counts.append(count)
            found = [_where(filled, count, 0.0) for count in counts if count is not None]
            return (x_RD, tuple(new)), sum(found[1:], found[0]) if found else None

        (y_RD, stash), counts = lax.scan(iteration, (x_RD, stash), jnp.arange(self.iterations))
        return y_RD, stash, None if counts is None else jnp.where(visit.busy, counts.sum(), 0)

    def backward(
        self, dy_RD: Float[Array, "R D"], stash: Stash, gradients: tuple[nnx.State, ...], visit: Visit
    ) -> tuple[Array, tuple[nnx.State, ...]]:
        """The gradient of a chunk's input, and the sums of gradients with those of its weights."""

        def iteration(carry: Any, index: Array) -> tuple[Any, None]:
            (dy_RD, sums), filled = carry, self._filled(visit, index)
            place, new = self._place(visit, index), list(sums)
            busy = visit.busy if filled is None else visit.busy & filled
            for j, own in reversed(list(enumerate(self._at(place)))):
                saved = [_at(slots, visit.slot * self.iterations + index) for slots in stash[j]]
                down, dx_RD = _derivative(self.layers[j], own, saved, dy_RD, visit.facts)
                new[j] = jax.tree.map(partial(_added, place=place, busy=busy), sums[j], down)
                dy_RD = _where(filled, dx_RD, dy_RD)
            return (dy_RD, tuple(new)), None

        dy_RD = jnp.where(visit.busy, dy_RD, jnp.zeros((), dy_RD.dtype))  # an idle stage has saved tensors of any kind
        backwards = jnp.arange(self.iterations)[::-1]
        return lax.scan(iteration, (dy_RD, gradients), backwards)[0]

    def _place(self, visit: Visit, index: Array) -> Array:
        return visit.chunk * self.iterations + index

    def _filled(self, visit: Visit, index: Array) -> Bool[Array, ""] | None:
        """Whether an iteration has layers; None where all have."""
        if self.filled == self.stages * self.iterations:
            return None
        stage = visit.chunk * (self.stages // self.chunks) + axis_index(PIPE)
        return stage * self.iterations + index < self.filled

    def _at(self, place: Array) -> tuple[nnx.State, ...]:
        """Weights of one iteration."""
        return jax.tree.map(partial(_at, place=place), self.weights)

    def _saved(self, weights: tuple[nnx.State, ...], x_RD: Array, facts: TokenFacts) -> Stash:
        saved = []
        for layer, own in zip(self.layers, weights, strict=True):
            x_RD, kept, _ = _with_saved(layer, own, x_RD, facts)
            saved.append(tuple(kept))
        return tuple(saved)


def _where(filled: Bool[Array, ""] | None, new: Array, old: Any) -> Array:
    return new if filled is None else jnp.where(filled, new, old)


def _apply(graph: Any, own: nnx.State, x_RD: Array, facts: TokenFacts) -> tuple[Array, Array | None]:
    made: tuple[Array, Array | None] = nnx.merge(graph, own)(x_RD, facts)
    return made


class _Residuals(NamedTuple):
    """A layer's derivative, taken apart."""

    leaves: list[Array]
    tree: Any
    there: list[Array | None]
    """The weight or the position that each leaf is, or an empty leaf itself; None: it must be saved."""


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


def _empty(shape: tuple[int, ...], like: Any) -> Array:
    """Zeros in the memory of an abstract array ``like``.

    In the host's memory they are as ``lax.scan`` makes its outputs there (jax 0.10.1): zeros that are put there would be made
    on the device first.
    """
    if like.memory_space != HOST:
        return jnp.zeros(shape, like.dtype)
    from jax._src.lax.lax import empty2

    return lax.broadcast(empty2(like.dtype, memory_space=HOST), shape)


def _put(slots: Array, x: Array, place: Array) -> Array:
    return lax.dynamic_update_index_in_dim(slots, x, place, 0)


def _at(stacked: Array, place: Array) -> Array:
    return lax.dynamic_index_in_dim(stacked, place, keepdims=False)


def _added(total: Array, gradient: Array, *, place: Array, busy: Array) -> Array:
    """The sum in place; an idle stage adds nothing, whatever its derivative is."""
    return _put(total, _at(total, place) + jnp.where(busy, gradient, 0), place)
