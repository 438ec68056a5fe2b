"""The rollout's programs, for samplers to call and for lcplan to compile for the target.

* ``gathered-per-step``, ``replicated``, ``tensor-sharded``: one decode step, ``(params, cache, tokens, position) -> (cache,
  next tokens)``.
* ``gathered-once``: the gather and the whole loop over tokens, with one loop for each length of the cache that is read, so
  that the copy lives as long as the loop.

The cache is donated unless the workload sets ``donate=False``. docs/sampling.md is the contract.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
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

__all__ = ["ROWS", "SampleSpec", "SampleStep", "StepSpec", "build_step", "compiled_with"]

StepSpec = SampleSpec
"""The name under which a worker finds a program's spec."""

ROWS = P(BATCH_AXES)


@dataclass(frozen=True)
class SampleStep:
    """The rollout of one SampleSpec on one mesh (of real devices or of a topology)."""

    spec: SampleSpec
    mesh: Mesh
    jitted: Any
    """``jax.jit`` of (params, cache, tokens, position); see the module."""
    by_length: Mapping[int, Any]
    """Decode steps (params, cache, tokens, position) -> (cache, next tokens) by the number of positions that they read; the
    loop of a rollout that gathers once is ``jitted``, and no step of it is here."""
    whole: Any
    """(params) -> parameters as they are served: the copy that a rollout gathers once, in other layouts the parameters."""
    prefill_jitted: Any
    """``jax.jit`` of (served params, empty cache, prompts) -> (cache, logits B V of the first new token).

    The gather is another program: attention by cuDNN asks for one mesh in the whole program, and the gather has its own."""
    decode: Any
    """``jax.jit`` of (params, cache, tokens, position) -> (cache, logits B V): one step, reading the whole cache."""
    shardings: nnx.State
    """Shardings of the given parameters."""
    _shapes: nnx.State
    served: _Served

    def prefill(self, params: nnx.State, cache: Cache, prompts_BT: Int[Array, "B T"]) -> tuple[Cache, Float[Array, "B V"]]:
        """Write the prompts into an empty cache, which is donated, and return it with the first new tokens' logits."""
        return self.prefill_jitted(self.whole(params), cache, prompts_BT)

    def abstract_arguments(self) -> tuple[nnx.State, jax.ShapeDtypeStruct, jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
        """Shapes with shardings, for ``jitted.lower(*abstract_arguments())``."""
        spec, shape = self.spec, jax.ShapeDtypeStruct
        params = jax.tree.map(lambda x, where: shape(x.shape, x.dtype, sharding=where), self._shapes, self.shardings)
        cache = shape(spec.cache_shape, spec.cache_dtype, sharding=NamedSharding(self.mesh, CACHE))
        tokens = shape((spec.workload.batch,), jnp.int32, sharding=NamedSharding(self.mesh, ROWS))
        return params, cache, tokens, shape((), jnp.int32, sharding=NamedSharding(self.mesh, P()))

    def init(self, key: Array) -> tuple[nnx.State, Cache]:
        """Make random parameters and an empty cache, each shard on its device."""
        spec = self.spec

        def params(key: Array) -> nnx.State:
            return stored_dtype(spec, nnx.state(Decoder(spec.served, nnx.Rngs(params=key)), nnx.Param))

        cache = jax.jit(lambda: zeros(spec), out_shardings=NamedSharding(self.mesh, CACHE))()
        return jax.jit(params, out_shardings=self.shardings)(key), cache

    def random_tokens(self, key: Array, shape: tuple[int, ...]) -> Int[Array, "B ..."]:
        """Random tokens, one row for each sequence."""
        made = lambda key: jax.random.randint(key, shape, 0, self.spec.model.vocab, jnp.int32)  # noqa: E731
        return jax.jit(made, out_shardings=NamedSharding(self.mesh, ROWS))(key)

    def generate(self, params: nnx.State, cache: Cache, tokens_B: Int[Array, " B"]) -> tuple[Cache, Int[Array, "B G"]]:
        """Decode all tokens after the prompt; ``tokens_B`` are the first of them, and the cache has the prompt."""
        first, made = self.spec.workload.prompt, []
        if not self.by_length:
            return self.jitted(params, cache, tokens_B, np.int32(first))
        waits = self.mesh.devices.flat[0].platform == "cpu"
        for length, step in self.by_length.items():
            for position in range(first, length):
                made.append(tokens_B)
                cache, tokens_B = step(params, cache, tokens_B, np.int32(position))
                if waits:  # collectives of two steps in flight can wait for each other's threads for good
                    jax.block_until_ready(tokens_B)
            first = length
        return cache, jnp.stack(made, axis=1)

    def timed(self, options: Mapping[str, str | bool]) -> TimedDecode:
        """All decode steps in the form that a timing runs, compiled with ``options``."""
        arguments = self.abstract_arguments()
        steps = {length: compiled_with(step, arguments, options) for length, step in self.by_length.items()}
        loop = self.jitted if steps else compiled_with(self.jitted, arguments, options)
        return TimedDecode(replace(self, jitted=loop, by_length=steps))


@dataclass(frozen=True)
class _Served:
    """Shapes and shardings of prefill's arguments, on the serving mesh."""

    mesh: Mesh
    shapes: nnx.State
    specs: nnx.State

    @property
    def shardings(self) -> tuple[Any, NamedSharding, NamedSharding]:
        """Shardings of parameters, cache and prompts."""
        params = jax.tree.map(lambda split: NamedSharding(self.mesh, split), self.specs, is_leaf=lambda x: isinstance(x, P))
        return params, NamedSharding(self.mesh, CACHE), NamedSharding(self.mesh, ROWS)

    @property
    def results(self) -> tuple[NamedSharding, NamedSharding]:
        """Shardings of cache and logits."""
        return NamedSharding(self.mesh, CACHE), NamedSharding(self.mesh, P(BATCH_AXES, TENSOR))


@dataclass(frozen=True)
class TimedDecode:
    """The decode of a whole rollout; ``jitted`` is (state, first tokens) -> (state, tokens)."""

    rollout: SampleStep

    def init(self, key: Array) -> tuple[nnx.State, Cache]:
        """Random parameters and an empty cache: the time of a step does not depend on their values."""
        return self.rollout.init(key)

    def example_batch(self, key: Array) -> Int[Array, " B"]:
        """Random first tokens."""
        return self.rollout.random_tokens(key, (self.rollout.spec.workload.batch,))

    def jitted(self, state: tuple[nnx.State, Cache], tokens_B: Int[Array, " B"]) -> tuple[tuple[nnx.State, Cache], Array]:
        """Run every decode step of the rollout."""
        params, cache = state
        cache, tokens_BG = self.rollout.generate(params, cache, tokens_B)
        return (params, cache), tokens_BG


def compiled_with(jitted: Any, arguments: tuple[Any, ...], options: Mapping[str, str | bool]) -> Any:
    """``jitted`` compiled for ``arguments`` with compiler ``options``; ``jitted`` itself without options."""
    return jitted.lower(*arguments).compile(compiler_options=dict(options)) if options else jitted


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

    rows, whole = NamedSharding(mesh, ROWS), NamedSharding(mesh, CACHE)
    given = (shardings, whole, rows, NamedSharding(mesh, P()))
    donated = (1,) if spec.workload.donate else ()
    placement = {"donate_argnums": donated, "in_shardings": given, "out_shardings": (whole, rows)}
    jitted = jax.jit(step, **placement)
    by_length = {length: jax.jit(partial(parts.step, length=length), **placement) for length in spec.lengths}
    served = _Served(parts.mesh, jax.eval_shape(collect, shapes), parts.placed)
    prefill = jax.jit(parts.prefill, donate_argnums=1, in_shardings=served.shardings, out_shardings=served.results)
    decode = jax.jit(lambda params, *rest: parts.logits(collect(params), *rest), donate_argnums=1)
    whole_copy = jax.jit(collect) if once else collect
    return SampleStep(spec, mesh, jitted, {} if once else by_length, whole_copy, prefill, decode, shardings, shapes, served)


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
        given = (self.placed, CACHE, ROWS, P())
        return self._map(body, given, P(BATCH_AXES, TENSOR))(params, cache, tokens_B, position)

    def prefill(self, params: nnx.State, cache: Cache, prompts_BT: Int[Array, "B T"]) -> tuple[Cache, Float[Array, "B V"]]:
        """Write the prompts into the cache."""
        body = Prefill(self.spec, self.graph, self.spec.workload.prompt)
        return self._map(body, (self.placed, CACHE, ROWS), P(BATCH_AXES, TENSOR))(params, cache, prompts_BT)

    def step(
        self, params: nnx.State, cache: Cache, tokens_B: Int[Array, " B"], position: Int[Array, ""], length: int | None = None
    ) -> tuple[Cache, Int[Array, " B"]]:
        """Run one decode step and pick the most likely token."""
        body = Decode(self.spec, self.graph, length or self.spec.workload.seq_len)

        def chosen(*arguments: Any) -> tuple[Cache, Int[Array, " B"]]:
            cache, logits_BV = body(*arguments)
            return cache, greedy(logits_BV)

        return self._map(chosen, (self.placed, CACHE, ROWS, P()), ROWS)(params, cache, tokens_B, position)

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
