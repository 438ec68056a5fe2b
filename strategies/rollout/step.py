"""The rollout's programs, for samplers to call and for lcplan to compile for the target.

* ``gathered-per-step``, ``replicated``, ``tensor-sharded``: one decode step, ``(params, cache, tokens, position) -> (cache,
  next tokens)``.
* ``gathered-once``: the gather and the whole loop over tokens, with one loop for each length of the cache that is read, so
  that the copy lives as long as the loop.

The cache is donated unless the workload sets ``donate=False``. docs/sampling.md is the contract.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from strategies.model.decoder import Decoder
from strategies.parallel.mesh import BATCH_AXES, TENSOR, build_mesh
from strategies.parallel.placement import partition_specs
from strategies.rollout.cache import CACHE, Cache
from strategies.rollout.decode import Decode, Prefill, zeros
from strategies.rollout.limits import check
from strategies.rollout.next_token import greedy
from strategies.rollout.parameters import gather, graph_and_shapes, stored_dtype
from strategies.rollout.sample_spec import SampleSpec

__all__ = ["SampleSpec", "SampleStep", "StepSpec", "build_step"]

StepSpec = SampleSpec
"""The name under which a worker finds a program's spec."""

_ROWS = P(BATCH_AXES)


@dataclass(frozen=True)
class SampleStep:
    """The rollout of one SampleSpec on one mesh (of real devices or of a topology)."""

    spec: SampleSpec
    mesh: Mesh
    jitted: Any
    """``jax.jit`` of (params, cache, tokens, position); see the module."""
    prefill: Any
    """``jax.jit`` of (params, empty cache, prompts) -> (cache, logits B V of the first new token)."""
    decode: Any
    """``jax.jit`` of (params, cache, tokens, position) -> (cache, logits B V): one step, reading the whole cache."""
    shardings: nnx.State
    """Shardings of the given parameters."""
    _shapes: nnx.State

    def abstract_arguments(self) -> tuple[nnx.State, jax.ShapeDtypeStruct, jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
        """Shapes with shardings, for ``jitted.lower(*abstract_arguments())``."""
        spec, shape = self.spec, jax.ShapeDtypeStruct
        params = jax.tree.map(lambda x, where: shape(x.shape, x.dtype, sharding=where), self._shapes, self.shardings)
        cache = shape(spec.cache_shape, spec.cache_dtype, sharding=NamedSharding(self.mesh, CACHE))
        tokens = shape((spec.workload.batch,), jnp.int32, sharding=NamedSharding(self.mesh, _ROWS))
        return params, cache, tokens, shape((), jnp.int32, sharding=NamedSharding(self.mesh, P()))

    def init(self, key: Array) -> tuple[nnx.State, Cache]:
        """Make random parameters and an empty cache, each shard on its device."""
        spec = self.spec

        def params(key: Array) -> nnx.State:
            return stored_dtype(spec, nnx.state(Decoder(spec.served, nnx.Rngs(params=key)), nnx.Param))

        cache = jax.jit(lambda: zeros(spec), out_shardings=NamedSharding(self.mesh, CACHE))()
        return jax.jit(params, out_shardings=self.shardings)(key), cache


def build_step(spec: SampleSpec, mesh: Mesh) -> SampleStep:
    """The rollout's programs on ``mesh`` (see ``strategies.parallel.mesh.build_mesh``).

    Raises
    ------
    BadInputError
        The program cannot run this model or workload under this layout; all reasons at once.
    """
    check(spec)
    graph, shapes = graph_and_shapes(spec)
    placed = partition_specs(spec.stored, shapes)
    shardings = jax.tree.map(lambda split: NamedSharding(mesh, split), placed, is_leaf=lambda x: isinstance(x, P))
    parts = _Parts(spec, graph, _serving_mesh(spec, mesh), partition_specs(spec.served, shapes))
    once = spec.sampling.parameters == "gathered-once"
    collect = gather(spec, mesh, shapes) if once else lambda params: params

    def step(params: nnx.State, cache: Cache, tokens_B: Array, position: Array) -> tuple[Cache, Array]:
        return parts.loop(collect(params), cache, tokens_B) if once else parts.step(params, cache, tokens_B, position)

    rows, whole = NamedSharding(mesh, _ROWS), NamedSharding(mesh, CACHE)
    given = (shardings, whole, rows, NamedSharding(mesh, P()))
    donated = (1,) if spec.workload.donate else ()
    jitted = jax.jit(step, donate_argnums=donated, in_shardings=given, out_shardings=(whole, rows))
    prefill = jax.jit(lambda params, cache, prompts: parts.prefill(collect(params), cache, prompts), donate_argnums=1)
    decode = jax.jit(lambda params, *rest: parts.logits(collect(params), *rest), donate_argnums=1)
    return SampleStep(spec, mesh, jitted, prefill, decode, shardings, shapes)


def _serving_mesh(spec: SampleSpec, mesh: Mesh) -> Mesh:
    """A mesh of the same devices in the same order; once parameters are gathered, fsdp's devices belong to data."""
    return build_mesh(spec.served.strategy, list(mesh.devices.flat))


@dataclass(frozen=True)
class _Parts:
    """Functions inside ``jit``, on the serving mesh."""

    spec: SampleSpec
    graph: Any
    mesh: Mesh
    placed: nnx.State

    def logits(
        self, params: nnx.State, cache: Cache, tokens_B: Int[Array, " B"], position: Int[Array, ""], length: int | None = None
    ) -> tuple[Cache, Float[Array, "B V"]]:
        """Run one decode step that reads ``length`` positions; all by default."""
        body = Decode(self.spec, self.graph, length or self.spec.workload.seq_len)
        given = (self.placed, CACHE, _ROWS, P())
        return self._map(body, given, P(BATCH_AXES, TENSOR))(params, cache, tokens_B, position)

    def prefill(self, params: nnx.State, cache: Cache, prompts_BT: Int[Array, "B T"]) -> tuple[Cache, Float[Array, "B V"]]:
        """Write the prompts into the cache."""
        body = Prefill(self.spec, self.graph, self.spec.workload.prompt)
        return self._map(body, (self.placed, CACHE, _ROWS), P(BATCH_AXES, TENSOR))(params, cache, prompts_BT)

    def step(
        self, params: nnx.State, cache: Cache, tokens_B: Int[Array, " B"], position: Int[Array, ""], length: int | None = None
    ) -> tuple[Cache, Int[Array, " B"]]:
        """Run one decode step and pick the most likely token."""
        body = Decode(self.spec, self.graph, length or self.spec.workload.seq_len)

        def chosen(*arguments: Any) -> tuple[Cache, Int[Array, " B"]]:
            cache, logits_BV = body(*arguments)
            return cache, greedy(logits_BV)

        return self._map(chosen, (self.placed, CACHE, _ROWS, P()), _ROWS)(params, cache, tokens_B, position)

    def loop(self, params: nnx.State, cache: Cache, tokens_B: Int[Array, " B"]) -> tuple[Cache, Int[Array, "B G"]]:
        """Generate all tokens after the prompt; each length of the cache has a loop of its own."""
        work, made = self.spec.workload, []
        first = work.prompt
        for length in self.spec.lengths:

            def one(carry: tuple[Cache, Array], position: Array, length: int = length) -> tuple[tuple[Cache, Array], Array]:
                cache, tokens_B = carry
                cache, following_B = self.step(params, cache, tokens_B, position, length)
                return (cache, following_B), tokens_B

            (cache, tokens_B), found = lax.scan(one, (cache, tokens_B), jnp.arange(first, length))
            made.append(found)
            first = length
        return cache, jnp.concatenate(made).T

    def _map(self, body: Callable[..., Any], given: tuple[Any, ...], made: P) -> Any:
        def exact(*arguments: Any) -> Any:
            with jax.default_matmul_precision("highest" if self.spec.workload.precision == "fp32" else "default"):
                return body(*arguments)

        return jax.shard_map(exact, mesh=self.mesh, in_specs=given, out_specs=(CACHE, made), check_vma=False)
