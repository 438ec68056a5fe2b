"""A small step with the parts of a real one: sharded weights gathered layer by layer, a ring of permutes, a scatter.

``doctor`` compiles it to see which backends a toolchain really has; it takes about a second where the real step takes several.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import Strategy


@dataclass(frozen=True)
class StepSpec:
    """The inputs of the program, with the real step's fields. The kernel is ignored: there is no attention here."""

    model: ModelSpec
    workload: Workload
    strategy: Strategy
    kernel: str


class Metrics(NamedTuple):
    """Metrics of the latest step."""

    loss: Any


@dataclass(frozen=True)
class Step:
    """A jitted function and its inputs, with the real step's fields."""

    jitted: Any
    spec: StepSpec
    mesh: Any

    def abstract_arguments(self) -> tuple[Any, ...]:
        """Weights L D D and activations T D, sharded, without data."""
        import jax
        from jax.sharding import NamedSharding

        model = self.spec.model
        shapes = ((model.layers, model.d_model, model.d_model), (self.spec.workload.tokens, model.d_model))
        return tuple(
            jax.ShapeDtypeStruct(shape, "bfloat16", sharding=NamedSharding(self.mesh, spec))
            for shape, spec in zip(shapes, _specs(), strict=True)
        )

    def init(self, key: Any) -> Any:
        """Weights on the mesh, small random numbers."""
        import jax

        weights = self.abstract_arguments()[0]
        made = partial(jax.random.normal, shape=weights.shape, dtype=weights.dtype)
        return jax.jit(lambda k: made(k) * 0.02, out_shardings=weights.sharding)(key)

    def example_batch(self, key: Any) -> Any:
        """Activations on the mesh."""
        import jax

        batch = self.abstract_arguments()[1]
        made = partial(jax.random.normal, shape=batch.shape, dtype=batch.dtype)
        return jax.jit(made, out_shardings=batch.sharding)(key)


def _specs() -> tuple[Any, Any]:
    from jax.sharding import PartitionSpec as P

    return P(None, ("fsdp", "context"), "tensor"), P(("data", "fsdp", "context"), None)


def build_step(spec: StepSpec, mesh: Any) -> Step:
    """The jitted function ``(weights, batch) -> (weights, metrics)``, weights donated."""
    import jax
    from jax.sharding import PartitionSpec as P

    weights_spec, batch_spec = _specs()
    size = spec.strategy.mesh.context

    def loss(weights: Any, batch: Any) -> Any:
        total = _local_loss(weights, batch, ring=size)
        return jax.lax.psum(total, ("data", "fsdp", "context"))

    shared = jax.shard_map(loss, mesh=mesh, in_specs=(weights_spec, batch_spec), out_specs=P(), check_vma=False)

    def step(weights: Any, batch: Any) -> Any:
        value, gradient = jax.value_and_grad(shared)(weights, batch)
        return weights - 1e-3 * gradient, Metrics(value)

    return Step(jax.jit(step, donate_argnums=0), spec, mesh)


def _local_loss(weights: Any, batch: Any, *, ring: int) -> Any:
    """All lengths are local: weights L D/(f c) D/t, batch T/(d f c) D."""
    import jax
    import jax.numpy as jnp

    turn = [(i, (i + 1) % ring) for i in range(ring)]

    def layer(x: Any, w: Any) -> Any:
        full = jax.lax.all_gather(w, ("fsdp", "context"), axis=0, tiled=True)

        def visit(_: Any, carry: Any) -> Any:
            chunk, total = carry
            return jax.lax.ppermute(chunk, "context", turn), total + jnp.tanh(chunk @ full) @ full.T

        _, y = jax.lax.fori_loop(0, ring, visit, (x, jnp.zeros_like(x)))
        return x + jax.lax.psum(y, "tensor").astype(x.dtype), None

    x, _ = jax.lax.scan(jax.checkpoint(layer), batch, weights)
    return jnp.mean(x.astype(jnp.float32) ** 2)
