"""The rollout's programs, for samplers to call and for lcplan to compile for the target.

* ``gathered-per-step``, ``replicated``, ``tensor-sharded``: one decode step, ``(params, cache, tokens, position, key) ->
  (cache, next tokens and their log-probabilities)``.
* ``gathered-once``: the gather and the whole loop over tokens, with one loop for each length of the cache that is read, so
  that the copy lives as long as the loop.

The cache is donated unless the workload sets ``donate=False``. docs/sampling.md is the contract.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Int

from lcplan.formats.errors import BadInputError
from lcplan.strategy.attention_kernel import reads_cache_in_place
from strategies.model.decoder import Decoder
from strategies.parallel.mesh import BATCH_AXES, TENSOR, build_mesh, platform_of
from strategies.parallel.placement import partition_specs
from strategies.rollout.cache import CACHE, ROWS, Cache
from strategies.rollout.decode import empty_cache, empty_cache_shapes
from strategies.rollout.generated import Generated, last_tokens
from strategies.rollout.limits import check
from strategies.rollout.next_token import Chosen
from strategies.rollout.parameters import gather, given_shapes, stored_dtype
from strategies.rollout.parts import Parts
from strategies.rollout.sample_spec import SampleSpec

__all__ = ["ROWS", "Cache", "Generated", "SampleSpec", "SampleStep", "StepSpec", "build_step", "compiled_with"]

StepSpec = SampleSpec
"""The name under which a worker finds a program's spec."""

Shardings = Any
"""A tree of NamedSharding, or a prefix of one."""


@dataclass(frozen=True)
class SampleStep:
    """The rollout of one SampleSpec on one mesh (of real devices or of a topology)."""

    spec: SampleSpec
    mesh: Mesh
    jitted: Any
    """``jax.jit`` of (params, cache, tokens, position, key); see the module."""
    by_length: Mapping[int, Any]
    """Decode steps (params, cache, tokens, position, key) -> (cache, Chosen) by the number of slots that they read; the loop of
    a rollout that gathers once is ``jitted``, and no step of it is here."""
    whole: Any
    """(params) -> parameters as they are served: the copy that a rollout gathers once, in other layouts the parameters."""
    prefill_jitted: Any
    """``jax.jit`` of (served params, empty cache, prompts) or (.., prompts, lengths) -> cache.

    The gather is another program: attention by cuDNN asks for one mesh in the whole program, and the gather has its own."""
    decode: Any
    """``jax.jit`` of (params, cache, tokens, position) -> (cache, logits B V): one step, reading the whole cache."""
    shardings: nnx.State
    """Shardings of the given parameters."""
    shapes: nnx.State
    """Shapes of the given parameters."""
    served: Served

    def sample(
        self, params: nnx.State, prompts_BT: Int[Array, "B T"], *, key: Array | None = None, lengths_B: Any = None
    ) -> Generated:
        """Generate after the prompts: an empty cache, prefill and generate.

        Parameters
        ----------
        params
            Parameters in ``shardings``.
        prompts_BT
            Prompts of at most T tokens each, from the first column on; the tokens after a shorter prompt are not read.
        key
            A key of ``jax.random.key``; not needed at temperature 0.
        lengths_B
            Tokens of each prompt, 1 to T; by default all have T.

        Raises
        ------
        BadInputError
            A shape or a length does not match the workload, or the key is missing.
        """
        cache = self.prefill(params, self.empty_cache(), prompts_BT, lengths_B=lengths_B)
        return self.generate(params, cache, last_tokens(prompts_BT, lengths_B), key=key)

    def prefill(self, params: nnx.State, cache: Cache, prompts_BT: Int[Array, "B T"], *, lengths_B: Any = None) -> Cache:
        """Write the prompts into an empty cache, which is donated.

        Raises
        ------
        BadInputError
            The prompts' shape is not the workload's, or a length is not between 1 and T.
        """
        self._check_prompts(prompts_BT, lengths_B)
        rows = NamedSharding(self.served.mesh, ROWS)
        given = (prompts_BT,) if lengths_B is None else (prompts_BT, jnp.asarray(lengths_B, jnp.int32))
        cache = jax.device_put(cache, self.served.cache_sharding)
        return self.prefill_jitted(self.whole(params), cache, *(jax.device_put(x, rows) for x in given))

    def generate(self, params: nnx.State, cache: Cache, tokens_B: Int[Array, " B"], *, key: Array | None = None) -> Generated:
        """Decode all tokens after the prompt; ``tokens_B`` are the prompts' last, and the cache has the prompts.

        Raises
        ------
        BadInputError
            The temperature is not 0 and there is no key.
        """
        temperature = self.spec.workload.temperature
        if key is None and temperature > 0:
            raise BadInputError(f"temperature={temperature:g} draws tokens and needs a key; give key=jax.random.key(seed)")
        key = jax.random.key(0) if key is None else key
        steps = self.spec.steps
        if not self.by_length:
            cache, chosen = self.jitted(params, cache, tokens_B, np.int32(steps[0]), key)
            return Generated(cache, *chosen)
        made: list[Chosen] = []
        for position in steps:
            step = self.by_length[next(length for length in self.by_length if position < length)]
            cache, chosen = step(params, cache, tokens_B, np.int32(position), key)
            tokens_B = chosen.tokens_U
            made.append(chosen)
            if self.spec.platform == "cpu":  # collectives of two steps in flight can wait for each other's threads for good
                jax.block_until_ready(tokens_B)
        return Generated(cache, *(jnp.stack(parts, axis=1) for parts in zip(*made, strict=True)))

    def abstract_arguments(self) -> tuple[Any, ...]:
        """Shapes with shardings, for ``jitted.lower(*abstract_arguments())``."""
        spec, shape = self.spec, jax.ShapeDtypeStruct
        params = with_shardings(self.shapes, self.shardings)
        cache = with_shardings(empty_cache_shapes(spec), _everywhere(CACHE, self.mesh))
        tokens = shape((spec.workload.batch,), jnp.int32, sharding=NamedSharding(self.mesh, ROWS))
        one = NamedSharding(self.mesh, P())
        key = jax.eval_shape(lambda: jax.random.key(0))
        return params, cache, tokens, shape((), jnp.int32, sharding=one), shape((), key.dtype, sharding=one)

    def init(self, key: Array) -> tuple[nnx.State, Cache]:
        """Make random parameters and an empty cache, each shard on its device."""
        spec = self.spec

        def params(key: Array) -> nnx.State:
            return stored_dtype(spec, nnx.state(Decoder(spec.served, nnx.Rngs(params=key)), nnx.Param))

        return jax.jit(params, out_shardings=self.shardings)(key), self.empty_cache()

    def empty_cache(self) -> Cache:
        """A cache of no token, each shard on its device."""
        made: Cache = jax.jit(lambda: empty_cache(self.spec), out_shardings=_everywhere(CACHE, self.mesh))()
        return made

    def random_tokens(self, key: Array, shape: tuple[int, ...]) -> Int[Array, "B ..."]:
        """Random tokens, one row for each sequence."""
        made = lambda key: jax.random.randint(key, shape, 0, self.spec.model.vocab, jnp.int32)  # noqa: E731
        return jax.jit(made, out_shardings=NamedSharding(self.mesh, ROWS))(key)

    def timed(self, options: Mapping[str, str | bool]) -> TimedDecode:
        """All decode steps in the form that a timing runs, compiled with ``options``."""
        arguments = self.abstract_arguments()
        steps = {length: compiled_with(step, arguments, options) for length, step in self.by_length.items()}
        loop = self.jitted if steps else compiled_with(self.jitted, arguments, options)
        return TimedDecode(replace(self, jitted=loop, by_length=steps))

    def _check_prompts(self, prompts_BT: Any, lengths_B: Any) -> None:
        work, problems = self.spec.workload, []
        if tuple(prompts_BT.shape) != (work.batch, work.prompt):
            problems.append(f"prompts of shape {tuple(prompts_BT.shape)}: this rollout takes {(work.batch, work.prompt)}, B T")
        if lengths_B is not None and getattr(lengths_B, "is_fully_addressable", True):
            lengths = np.asarray(lengths_B)
            if lengths.shape != (work.batch,) or lengths.min() < 1 or lengths.max() > work.prompt:
                problems.append(
                    f"lengths of shape {lengths.shape} from {lengths.min()} to {lengths.max()} tokens: give {work.batch}, "
                    f"each from 1 to prompt={work.prompt}"
                )
        if problems:
            raise BadInputError(problems)


@dataclass(frozen=True)
class Served:
    """Shapes and shardings of prefill's arguments, on the serving mesh."""

    mesh: Mesh
    shapes: nnx.State
    specs: nnx.State

    @property
    def params(self) -> Shardings:
        """Shardings of the parameters as they are served."""
        return _everywhere(self.specs, self.mesh)

    @property
    def cache_sharding(self) -> Shardings:
        """Shardings of the cache."""
        return _everywhere(CACHE, self.mesh)


@dataclass(frozen=True)
class TimedDecode:
    """The decode of a whole rollout; ``jitted`` is (state, last tokens of the prompts) -> (state, tokens)."""

    rollout: SampleStep

    def init(self, key: Array) -> tuple[nnx.State, Cache]:
        """Random parameters and an empty cache: the time of a step does not depend on their values."""
        return self.rollout.init(key)

    def example_batch(self, key: Array) -> Int[Array, " B"]:
        """Random tokens."""
        return self.rollout.random_tokens(key, (self.rollout.spec.workload.batch,))

    def jitted(self, state: tuple[nnx.State, Cache], tokens_B: Int[Array, " B"]) -> tuple[tuple[nnx.State, Cache], Array]:
        """Run every decode step of the rollout."""
        params, cache = state
        made = self.rollout.generate(params, cache, tokens_B, key=jax.random.key(0))
        return (params, made.cache), made.tokens_BG


def compiled_with(jitted: Any, arguments: tuple[Any, ...], options: Mapping[str, str | bool]) -> Any:
    """``jitted`` compiled for ``arguments`` with compiler ``options``; ``jitted`` itself without options."""
    return jitted.lower(*arguments).compile(compiler_options=dict(options)) if options else jitted


def with_shardings(shapes: Any, shardings: Shardings) -> Any:
    """``shapes`` with their shardings, of which a prefix of the tree is enough."""

    def placed(where: NamedSharding, part: Any) -> Any:
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where), part)

    return jax.tree.map(placed, shardings, shapes)


def _everywhere(specs: Any, mesh: Mesh) -> Shardings:
    return jax.tree.map(lambda split: NamedSharding(mesh, split), specs, is_leaf=lambda x: isinstance(x, P))


def build_step(spec: SampleSpec, mesh: Mesh) -> SampleStep:
    """The rollout's programs on ``mesh`` (see ``strategies.parallel.mesh.build_mesh``).

    Raises
    ------
    BadInputError
        The program cannot run this model or workload under this layout; all reasons at once.
    """
    spec = replace(spec, platform=platform_of(mesh), cache_kernel=_has_cache_kernel(spec, mesh))
    check(spec)
    shapes = given_shapes(spec)
    shardings = _everywhere(partition_specs(spec.stored, shapes), mesh)
    serving = build_mesh(spec.served.strategy, list(mesh.devices.flat))
    parts = Parts(spec, serving, partition_specs(spec.served, shapes))
    once = spec.sampling.parameters == "gathered-once"
    collect = gather(spec, mesh, shapes) if once else lambda params: params

    def step(params: nnx.State, cache: Cache, tokens_B: Array, position: Array, key: Array) -> tuple[Cache, Chosen]:
        if once:
            return parts.loop(collect(params), cache, tokens_B, key)
        return parts.step(params, cache, tokens_B, position, key)

    placement = _placement(spec, mesh, shardings)
    by_length = {length: jax.jit(partial(parts.step, length=length), **placement) for length in spec.lengths}
    served = Served(serving, jax.eval_shape(collect, shapes), parts.placed)
    return SampleStep(
        spec=spec,
        mesh=mesh,
        jitted=jax.jit(step, **placement),
        by_length={} if once else by_length,
        whole=jax.jit(collect) if once else collect,
        prefill_jitted=jax.jit(parts.prefill, donate_argnums=1, out_shardings=served.cache_sharding),
        decode=jax.jit(
            lambda params, *rest: parts.logits(collect(params), *rest),
            donate_argnums=1,
            out_shardings=(_everywhere(CACHE, mesh), NamedSharding(mesh, P(BATCH_AXES, TENSOR))),
        ),
        shardings=shardings,
        shapes=shapes,
        served=served,
    )


def _has_cache_kernel(spec: SampleSpec, mesh: Mesh) -> bool:
    """Whether the devices are NVIDIA's and the model's heads are of a size that the kernel of the cache takes."""
    nvidia = platform_of(mesh) == "gpu" and mesh.devices.flat[0].device_kind.startswith("NVIDIA")
    return nvidia and reads_cache_in_place("gpu", spec.model.head_dim)


def _placement(spec: SampleSpec, mesh: Mesh, params: Shardings) -> dict[str, Any]:
    """Options of ``jax.jit`` for a decode step or a loop of them."""
    rows, cache, one = NamedSharding(mesh, ROWS), _everywhere(CACHE, mesh), NamedSharding(mesh, P())
    return {
        "donate_argnums": (1,) if spec.workload.donate else (),
        "in_shardings": (params, cache, rows, one, one),
        "out_shardings": (cache, rows),
    }
