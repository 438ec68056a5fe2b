"""Runs of layers: each a scan over a period of layers, with the parameters of every layer of the period stacked apart.

A model whose layers are all alike is one run of one layer, and its parameters are those of one stacked ``Layer``. Where a
share of the layers offloads, each run is two loops: the first iterations offload, the others keep the same tensors on the
device. Their parameters are stacked apart as well: XLA would copy a part of a stack for a loop over it, and join its
gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial, reduce
from typing import Any, NamedTuple

import jax.numpy as jnp
from flax import nnx
from jax import lax
from jaxtyping import Array, Float

from lcplan.spec.layers import LayerKind
from lcplan.strategy.remat import REMAT_POLICIES, RematPolicy, offloading_iterations
from strategies.inputs.step_spec import StepSpec
from strategies.parallel.remat import remat

Make = Callable[[StepSpec, nnx.Rngs], nnx.Module]
"""A layer of a model whose layers are all alike."""


class Loop(NamedTuple):
    """``repeats`` iterations over the layers of ``period``, all under one remat policy."""

    period: tuple[LayerKind, ...]
    repeats: int
    policy: RematPolicy


def loops(spec: StepSpec) -> tuple[Loop, ...]:
    """All layers in order, as the step loops over them; stages of a pipeline have equally many iterations.

    The last ones are empty where the stages do not divide a run's iterations.
    """
    return tuple(_loops(spec))


def _loops(spec: StepSpec) -> Iterator[Loop]:
    policy, percent = REMAT_POLICIES[spec.strategy.remat], spec.strategy.offload_percent
    for period, whole in spec.model.layer_runs:
        repeats = -(-whole // spec.stages) * spec.stages
        first = offloading_iterations(repeats, percent) if policy.offloaded else repeats
        yield Loop(period, first, policy)
        if first < repeats:
            yield Loop(period, repeats - first, policy.on_device)


def stacked_runs(spec: StepSpec, rngs: nnx.Rngs, *, make: Make) -> Any:
    """Layers with their parameters stacked on a leading dim: one where one loop has all, else a list of periods, one a loop."""
    each = loops(spec)
    if _lone(each):
        return _stack(spec, rngs, make=partial(make, spec), count=each[0].repeats)
    kinds = {kind: replace(spec, model=spec.model.of_kind(kind)) for kind in spec.model.layer_kinds}
    return nnx.List(
        nnx.List(_stack(spec, rngs, make=partial(make, kinds[kind]), count=loop.repeats) for kind in loop.period)
        for loop in each
    )


def _lone(each: tuple[Loop, ...]) -> bool:
    return len(each) == 1 and len(each[0].period) == 1


def _stack(spec: StepSpec, rngs: nnx.Rngs, *, make: Callable[[nnx.Rngs], nnx.Module], count: int) -> Any:
    @nnx.split_rngs(splits=count)
    @nnx.vmap(in_axes=0, out_axes=0)
    def layers(rngs: nnx.Rngs) -> nnx.Module:
        return make(rngs)

    return layers(rngs)


def through_runs(
    layers: Any, x_RD: Float[Array, "... D"], apply: Callable[[Any, Array], tuple[Array, Array | None]], *, spec: StepSpec
) -> tuple[Float[Array, "... D"], Float[Array, ""] | None]:
    """Through all layers, one at a time, each under the remat policy; ``apply(layer, x)`` is one of them.

    A layer leaves only the scan's carry and the tensors that remat keeps. Counts of the layers are added up.
    """
    each, counts = loops(spec), []
    for loop, period in zip(each, [[layers]] if _lone(each) else layers, strict=True):
        x_RD, count = _through(period, x_RD, apply, policy=loop.policy)
        counts.append(count)
    found = [count for count in counts if count is not None]
    return x_RD, reduce(jnp.add, found) if found else None


def _through(period: Any, x_RD: Array, apply: Callable[..., Any], *, policy: RematPolicy) -> tuple[Array, Array | None]:
    graphs, shards = zip(*(nnx.split(layer) for layer in period), strict=True)
    layers = [remat(partial(_layer, graph, apply=apply), policy) for graph in graphs]

    def iteration(x_RD: Array, shards: tuple[nnx.State, ...]) -> tuple[Array, Array | None]:
        counts = []
        for layer, own in zip(layers, shards, strict=True):
            x_RD, count = layer(x_RD, own)
            counts.append(count)
        found = [count for count in counts if count is not None]
        return x_RD, reduce(jnp.add, found) if found else None

    x_RD, counts = lax.scan(iteration, x_RD, shards)
    return x_RD, None if counts is None else counts.sum()


def _layer(graph: Any, x_RD: Array, own: nnx.State, *, apply: Callable[..., Any]) -> tuple[Array, Array | None]:
    return apply(nnx.merge(graph, own), x_RD)
