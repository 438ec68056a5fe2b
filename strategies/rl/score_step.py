"""Log-probabilities of given tokens: a forward pass on the train step's mesh, one microbatch after another.

``jitted`` is (params, tokens, targets) -> log-probabilities, each ``B/(data, fsdp, expert) T/context``. The parameters are the
train step's fp32 shards, or those of a reference model, whose matrices have the gather dtype.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from strategies.inputs.step_spec import StepSpec
from strategies.model.decoder import Decoder
from strategies.parallel.mesh import BATCH_AXES, CONTEXT, platform_of
from strategies.parallel.placement import axes_of, partition_specs
from strategies.rollout.step import compiled_with
from strategies.train.limits import check

TOKENS = P(BATCH_AXES, CONTEXT)


@dataclass(frozen=True)
class ScoreStep:
    """The scoring of one StepSpec's sequences on one mesh (of real devices or of a topology)."""

    spec: StepSpec
    mesh: Mesh
    jitted: Any
    shardings: nnx.State
    """Shardings of the parameters."""
    shapes: nnx.State
    """Their shapes and dtypes."""

    def abstract_arguments(self) -> tuple[nnx.State, jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
        """Shapes with shardings, for ``jitted.lower(*abstract_arguments())``."""
        shape, work = jax.ShapeDtypeStruct, self.spec.workload
        params = jax.tree.map(lambda x, where: shape(x.shape, x.dtype, sharding=where), self.shapes, self.shardings)
        tokens = shape((work.global_batch, work.seq_len), jnp.int32, sharding=NamedSharding(self.mesh, TOKENS))
        return params, tokens, tokens

    def stored(self, params: nnx.State) -> nnx.State:
        """The given fp32 parameters in the dtypes of this program's."""
        cast = jax.jit(lambda tree: jax.tree.map(lambda x, like: x.astype(like.dtype), tree, self.shapes))
        return cast(params)

    def timed(self, options: Mapping[str, str | bool]) -> TimedScore:
        """The program in the form that a timing runs, compiled with ``options``."""
        return TimedScore(replace(self, jitted=compiled_with(self.jitted, self.abstract_arguments(), options)))


@dataclass(frozen=True)
class TimedScore:
    """``jitted`` is (params, batch) -> (params, log-probabilities)."""

    score: ScoreStep

    def init(self, key: Array) -> nnx.State:
        """Random parameters."""

        def params(key: Array) -> nnx.State:
            made = nnx.state(Decoder(self.score.spec, nnx.Rngs(params=key)), nnx.Param)
            return jax.tree.map(lambda x, like: x.astype(like.dtype), made, self.score.shapes)

        return jax.jit(params, out_shardings=self.score.shardings)(key)

    def example_batch(self, key: Array) -> Int[Array, "B T"]:
        """Random tokens, which are their own targets."""
        work = self.score.spec.workload
        made = lambda key: jax.random.randint(key, (work.global_batch, work.seq_len), 0, self.score.spec.model.vocab, jnp.int32)  # noqa: E731
        return jax.jit(made, out_shardings=NamedSharding(self.score.mesh, TOKENS))(key)

    def jitted(self, params: nnx.State, tokens_BT: Int[Array, "B T"]) -> tuple[nnx.State, Float[Array, "B T"]]:
        """Score once."""
        return params, self.score.jitted(params, tokens_BT, tokens_BT)


def build_score(spec: StepSpec, mesh: Mesh, *, rounded: bool) -> ScoreStep:
    """The scoring of ``spec`` on ``mesh``; ``rounded``: matrices are stored in the gather dtype.

    It is written for ``shard_map`` whatever the sharding mode of the update: parameters have the same shards in all of them.

    Raises
    ------
    BadInputError
        The program cannot run this model or workload under this strategy; all reasons at once.
    """
    check(spec)
    strategy = spec.strategy.model_copy(update={"sharding_mode": "manual"})
    spec = replace(spec, strategy=strategy, platform=platform_of(mesh))
    graph, params = nnx.split(nnx.eval_shape(lambda: Decoder(spec, nnx.Rngs(params=0))), nnx.Param)
    specs = partition_specs(spec, params)
    if rounded:
        params = jax.tree.map(lambda split, leaf: _rounded(spec, split, leaf), specs, params, is_leaf=_is_split)
    inside = _Score(spec, graph)
    mapped = jax.shard_map(inside, mesh=mesh, in_specs=(specs, TOKENS, TOKENS), out_specs=TOKENS, check_vma=False)
    placed = jax.tree.map(lambda split: NamedSharding(mesh, split), specs, is_leaf=_is_split)
    tokens = NamedSharding(mesh, TOKENS)
    jitted = jax.jit(mapped, in_shardings=(placed, tokens, tokens), out_shardings=tokens)
    return ScoreStep(spec, mesh, jitted, placed, params)


@dataclass(frozen=True)
class _Score:
    """The part inside ``shard_map``: all lengths are local."""

    spec: StepSpec
    graph: Any

    def __call__(self, params: nnx.State, tokens_BT: Int[Array, "B T"], targets_BT: Int[Array, "B T"]) -> Float[Array, "B T"]:
        """Log-probability of each target; 0 without one."""
        parts = jax.tree.map(lambda x: x.reshape(self.spec.strategy.microbatches, -1, x.shape[1]), (tokens_BT, targets_BT))
        with jax.default_matmul_precision("highest" if self.spec.workload.precision == "fp32" else "default"):
            found = lax.map(lambda part: nnx.merge(self.graph, params).log_probs(*part), parts)
        return found.reshape(tokens_BT.shape)


def _rounded(spec: StepSpec, split: P, leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    """A matrix in the gather dtype; vectors, which no axis splits, stay."""
    return jax.ShapeDtypeStruct(leaf.shape, spec.numerics.gather) if axes_of(split) else leaf


def _is_split(value: Any) -> bool:
    return isinstance(value, P)
