"""The move of the trained parameters to the rollout's layout: rounded first, one layer after another.

``jitted`` is (params) -> params; the given ones stay. XLA chooses the collectives: an all-to-all where heads, columns and
vocabulary are split over another number of ranks, and an all-gather where a rollout's device keeps more than it had.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import jax
from flax import nnx
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float

from lcplan.formats.errors import BadInputError
from lcplan.spec.model import ModelSpec
from lcplan.spec.rollout_workloads import RlWorkload
from lcplan.strategy import Strategy
from strategies.inputs.step_spec import KernelName
from strategies.inputs.step_spec import StepSpec as UpdateSpec
from strategies.model.decoder import Decoder
from strategies.parallel.mesh import STATE_AXES, build_mesh
from strategies.parallel.placement import axes_of, partition_specs
from strategies.rl.update_step import update_spec
from strategies.rollout.parameters import given_shapes
from strategies.rollout.sample_spec import SampleSpec
from strategies.rollout.step import compiled_with

DATA = "data"

__all__ = ["ReshardSpec", "ReshardStep", "StepSpec", "build_step", "rollout_spec"]


@dataclass(frozen=True)
class ReshardSpec:
    """One move: from the update's layout to the rollout's, both in ``strategy``."""

    model: ModelSpec
    workload: RlWorkload
    strategy: Strategy
    kernel: KernelName
    learning_rate: float = 1e-6
    """The update's learning rate."""

    @property
    def update(self) -> UpdateSpec:
        """The update, whose shards are moved."""
        return update_spec(
            model=self.model,
            workload=self.workload,
            strategy=self.strategy,
            kernel=self.kernel,
            learning_rate=self.learning_rate,
        )


StepSpec = ReshardSpec
"""The name under which a worker finds a program's spec."""


def rollout_spec(spec: ReshardSpec) -> SampleSpec:
    """The rollout that receives the parameters, with the knobs that a rollout has."""
    planned, sampling = spec.strategy, spec.strategy.sampling
    assert sampling is not None, "a strategy of an iteration"
    own = Strategy(mesh=sampling.mesh, backend=planned.backend, gather_dtype=planned.gather_dtype, sampling=sampling)
    return SampleSpec(spec.model, spec.workload.sample, own, spec.kernel)


@dataclass(frozen=True)
class ReshardStep:
    """The move on the devices of one mesh (real ones or those of a topology)."""

    spec: ReshardSpec
    jitted: Any
    given: nnx.State
    """Shapes of the trained parameters with their shardings."""

    def abstract_arguments(self) -> tuple[nnx.State]:
        """Shapes with shardings, for ``jitted.lower(*abstract_arguments())``."""
        return (self.given,)

    def timed(self, options: Mapping[str, str | bool]) -> TimedReshard:
        """The move in the form that a timing runs, compiled with ``options``."""
        return TimedReshard(replace(self, jitted=compiled_with(self.jitted, self.abstract_arguments(), options)))


@dataclass(frozen=True)
class TimedReshard:
    """``jitted`` is (params, nothing) -> (params, moved)."""

    step: ReshardStep

    def init(self, key: Array) -> nnx.State:
        """Random parameters in the update's layout."""
        where = jax.tree.map(lambda shape: shape.sharding, self.step.given)
        make = lambda key: nnx.state(Decoder(self.step.spec.update, nnx.Rngs(params=key)), nnx.Param)  # noqa: E731
        return jax.jit(make, out_shardings=where)(key)

    def example_batch(self, key: Array) -> None:
        """A move has no batch."""
        return

    def jitted(self, params: nnx.State, batch: None) -> tuple[nnx.State, nnx.State]:
        """Move once."""
        return params, self.step.jitted(params)


def build_step(spec: ReshardSpec, mesh: Mesh) -> ReshardStep:
    """The move of the update's parameters on ``mesh`` to the rollout's layout on the same devices in the same order.

    Raises
    ------
    BadInputError
        The update keeps layers in several stacks, which a rollout does not have.
    """
    own = nnx.split(nnx.eval_shape(lambda: Decoder(spec.update, nnx.Rngs(params=0))), nnx.Param)[1]
    target = rollout_spec(spec)
    shapes = given_shapes(target)
    if jax.tree.structure(own) != jax.tree.structure(shapes):
        percent = spec.strategy.offload_percent
        raise BadInputError(
            f"offload_percent={percent} keeps the layers in two stacks, and a rollout has one; use offload_percent=100"
        )
    serving = build_mesh(target.strategy, list(mesh.devices.flat))
    source, moved = partition_specs(spec.update, own), partition_specs(target.stored, shapes)
    move = [_Move(*one) for one in zip(*map(_leaves, (shapes, source, moved)), strict=True)]
    placed = [NamedSharding(serving, one.moved) for one in move]
    given = jax.tree.map(lambda x, split: _with_sharding(x, mesh, split), own, source)
    tree = jax.tree.structure(shapes)

    def reshard(params: nnx.State) -> nnx.State:
        leaves = jax.tree.leaves(params)
        return jax.tree.unflatten(tree, [one(x, mesh, serving) for one, x in zip(move, leaves, strict=True)])

    return ReshardStep(spec, jax.jit(reshard, out_shardings=jax.tree.unflatten(tree, placed)), given)


@dataclass(frozen=True)
class _Move:
    """The move of one parameter; a stack of layers moves one layer after another, so that copies are a layer's."""

    shape: jax.ShapeDtypeStruct
    source: P
    moved: P

    def __call__(self, x: Float[Array, "..."], mesh: Mesh, serving: Mesh) -> Float[Array, "..."]:
        """Return the parameter in the rollout's dtype and layout."""
        stacked = len(self.source) > 1 and self.source[0] is None
        own, between, other = (_of_layer(split, stacked) for split in (self.source, self._between(x, serving), self.moved))
        before, after = NamedSharding(mesh, own), NamedSharding(serving, other)

        def one(x: Array) -> Array:
            # Without the barrier XLA moves fp32 and rounds afterwards.
            rounded = lax.optimization_barrier(lax.with_sharding_constraint(x.astype(self.shape.dtype), before))
            exchanged = lax.with_sharding_constraint(rounded, NamedSharding(serving, between))
            return lax.with_sharding_constraint(exchanged, after)

        return lax.map(one, x) if stacked else one(x)

    def _between(self, x: Array, serving: Mesh) -> P:
        """The layout between all-to-all and all-gather: D over every device that does not split another dim.

        Without it XLA gathers the whole parameter on every device and cuts it there.
        """
        parts = [*self.moved, *[None] * (x.ndim - len(self.moved))]
        dims = [dim for dim, part in enumerate(self.source) if axes_of(P(part)) & set(STATE_AXES)]
        if not dims:
            return self.moved
        axes = (DATA, *parts[dims[0]])  # the axes of the state, of a rollout's own mesh
        if x.shape[dims[0]] % prod(serving.shape[axis] for axis in axes):
            return self.moved
        parts[dims[0]] = axes
        return P(*parts)


def _of_layer(split: P, stacked: bool) -> P:
    return P(*split[1:]) if stacked else split


def _leaves(tree: Any) -> list[Any]:
    return jax.tree.leaves(tree, is_leaf=lambda x: isinstance(x, P))


def _with_sharding(x: jax.ShapeDtypeStruct, mesh: Mesh, split: P) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(mesh, split))
