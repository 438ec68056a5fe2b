"""Runs of layers: each a scan over a period of layers, with the parameters of every layer of the period stacked apart.

A model whose layers are all alike is one run of one layer, and its parameters are those of one stacked ``Layer``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import jax.numpy as jnp
from flax import nnx
from jax import lax
from jaxtyping import Array, Float

from strategies.remat import remat
from strategies.spec import StepSpec

Make = Callable[[StepSpec, nnx.Rngs], nnx.Module]
"""A layer of a model whose layers are all alike."""


def stacked_runs(spec: StepSpec, rngs: nnx.Rngs, *, make: Make) -> Any:
    """Layers with their parameters stacked on a leading dim: one where all are alike, else a list of periods, one a run."""
    if len(spec.model.layer_kinds) == 1:
        return _stack(spec, rngs, make=partial(make, spec), count=spec.model.layers)
    kinds = {kind: replace(spec, model=spec.model.of_kind(kind)) for kind in spec.model.layer_kinds}
    return nnx.List(
        nnx.List(_stack(spec, rngs, make=partial(make, kinds[kind]), count=run.repeats) for kind in run.period)
        for run in spec.model.layer_runs
    )


def _stack(spec: StepSpec, rngs: nnx.Rngs, *, make: Callable[[nnx.Rngs], nnx.Module], count: int) -> Any:
    @nnx.split_rngs(splits=count)
    @nnx.vmap(in_axes=0, out_axes=0)
    def layers(rngs: nnx.Rngs) -> nnx.Module:
        return make(rngs)

    return layers(rngs)


def through_runs(
    layers: Any, x_RD: Float[Array, "R D"], apply: Callable[[Any, Array], tuple[Array, Array | None]], *, spec: StepSpec
) -> tuple[Float[Array, "R D"], Float[Array, ""] | None]:
    """Through all layers, one at a time, each under the remat policy; ``apply(layer, x)`` is one of them.

    A scan's carry is all that a layer leaves behind, but for what remat keeps. What layers count is added up.
    """
    counts = []
    for period in [[layers]] if len(spec.model.layer_kinds) == 1 else layers:
        x_RD, count = _through_run(period, x_RD, apply, spec=spec)
        counts.append(count)
    found = [count for count in counts if count is not None]
    return x_RD, reduce(jnp.add, found) if found else None


def _through_run(period: Any, x_RD: Array, apply: Callable[..., Any], *, spec: StepSpec) -> tuple[Array, Array | None]:
    graphs, shards = zip(*(nnx.split(layer) for layer in period), strict=True)
    layers = [remat(partial(_layer, graph, apply=apply), spec.strategy.remat) for graph in graphs]

    def turn(x_RD: Array, shards: tuple[nnx.State, ...]) -> tuple[Array, Array | None]:
        counts = []
        for layer, own in zip(layers, shards, strict=True):
            x_RD, count = layer(x_RD, own)
            counts.append(count)
        found = [count for count in counts if count is not None]
        return x_RD, reduce(jnp.add, found) if found else None

    x_RD, counts = lax.scan(turn, x_RD, shards)
    return x_RD, None if counts is None else counts.sum()


def _layer(graph: Any, x_RD: Array, own: nnx.State, *, apply: Callable[..., Any]) -> tuple[Array, Array | None]:
    return apply(nnx.merge(graph, own), x_RD)
