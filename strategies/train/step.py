"""The train step: loss and gradients by the strategy's sharding mode, then the optimizer. docs/step.md is its contract."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from lcplan.strategy.scopes import OPTIMIZER
from strategies.inputs.policy import PolicyObjective, PolicyTokens
from strategies.inputs.step_spec import StepSpec
from strategies.model.accumulate import accumulate
from strategies.model.batch import Batch, packed
from strategies.model.decoder import Decoder
from strategies.model.loss import IGNORE, Targets
from strategies.parallel.collectives import all_reduce
from strategies.parallel.mesh import BATCH_AXES, CONTEXT, PIPE, axis_sizes, platform_of
from strategies.parallel.placement import axes_of, partition_specs
from strategies.parallel.stored import differentiated, master_params
from strategies.pipeline.ends import Ends
from strategies.pipeline.gradients import through_stages
from strategies.schemes.documents import gathered
from strategies.schemes.layout import token_order
from strategies.train.limits import check
from strategies.train.optimizer import Pieces, apply_updates, optimizer_of
from strategies.train.state_paths import owners
from strategies.whole_array import GlobalLossAndGradients, mesh_of, style_of

__all__ = ["Batch", "StepSpec", "TrainState", "TrainStep", "build_step"]

_TOKENS = P(BATCH_AXES, CONTEXT)
Counted = Callable[[nnx.State, Batch], tuple[Float[Array, ""], nnx.State, Float[Array, ""] | None]]
"""Loss, gradients, and with experts the dropped rows."""


class TrainState(NamedTuple):
    """State that a step updates: parameters in the master dtype, the optimizer's moments, steps done."""

    params: nnx.State
    optimizer: Any
    step: Int[Array, ""]


class Metrics(NamedTuple):
    """Metrics of the last step."""

    loss: Float[Array, ""]
    """Mean over all tokens that have a target."""
    gradient_norm: Float[Array, ""]
    dropped: Float[Array, ""] | None = None
    """Rows dropped by the experts of all layers together."""


@dataclass(frozen=True)
class TrainStep:
    """The step of one StepSpec on one mesh (of real devices or of a topology)."""

    spec: StepSpec
    mesh: Mesh
    jitted: Any
    """``jax.jit`` of (state, batch) -> (state, metrics); the state is donated."""
    loss_and_gradients: Callable[[nnx.State, Batch], tuple[Float[Array, ""], nnx.State]]
    """(params, batch) -> (loss, gradients): without the update, for tests and for other optimizers."""
    state_shardings: TrainState

    def abstract_arguments(self) -> tuple[TrainState, Batch]:
        """Shapes with shardings, for ``jitted.lower(*abstract_arguments())``."""
        state = jax.eval_shape(_initial_state(self.spec), jax.eval_shape(lambda: jax.random.key(0)))
        shape = self.spec.workload.global_batch, self.spec.workload.seq_len
        tokens = jax.ShapeDtypeStruct(shape, jnp.int32, sharding=NamedSharding(self.mesh, _TOKENS))
        documents = None if self.spec.workload.document_len is None else tokens
        values = jax.ShapeDtypeStruct(shape, jnp.float32, sharding=tokens.sharding)
        batch = Batch(tokens, tokens, documents, policy_tokens(self.spec.objective, values))
        return jax.tree.map(_with_sharding, state, self.state_shardings), batch

    def init(self, key: Array) -> TrainState:
        """Create a random state, each shard on its own device."""
        return jax.jit(_initial_state(self.spec), out_shardings=self.state_shardings)(key)

    def example_batch(self, key: Array) -> Batch:
        """Random tokens with their next tokens as targets, in the scheme's order; documents of ``document_len`` each."""
        workload, strategy = self.spec.workload, self.spec.strategy
        order = token_order(strategy, seq_len=workload.seq_len)
        shape = workload.global_batch, workload.seq_len + 1

        def make(key: Array) -> Batch:
            tokens = jax.random.randint(key, shape, 0, self.spec.model.vocab, jnp.int32)
            batch = Batch(tokens[:, order], tokens[:, order + 1])
            values = jnp.full(batch.tokens_BT.shape, -1.0)  # an advantage of -1 has a loss of at least 1 - clip_low
            batch = batch._replace(policy=policy_tokens(self.spec.objective, values))
            return batch if workload.document_len is None else packed(batch, order, document_len=workload.document_len)

        return jax.jit(make, out_shardings=NamedSharding(self.mesh, _TOKENS))(key)  # each process makes its own shards


def policy_tokens(objective: PolicyObjective | None, each: Any) -> PolicyTokens | None:
    """``each`` for every array of a policy objective; None for cross-entropy."""
    if objective is None:
        return None
    return PolicyTokens(each, each, each if objective.kl_coefficient else None)


def build_step(spec: StepSpec, mesh: Mesh) -> TrainStep:
    """The train step of ``spec`` on ``mesh`` (see ``strategies.parallel.mesh.build_mesh``).

    Raises
    ------
    BadInputError
        The program cannot run this model or workload under this strategy; all reasons at once.
    """
    check(spec)
    spec = replace(spec, platform=platform_of(mesh))
    graph, params = nnx.split(nnx.eval_shape(lambda: Decoder(spec, nnx.Rngs(params=0))), nnx.Param)
    params, specs = jax.eval_shape(partial(master_params, strategy=spec.strategy), params), partition_specs(spec, params)
    optimizer = optimizer_of(spec.strategy, spec.learning_rate, pieces=pieces_of(spec, params, specs=specs))
    mode = spec.strategy.sharding_mode
    mesh = mesh_of(mode, mesh)
    counted: Counted
    if mode == "manual":
        inside = LossAndGradients(spec, graph, specs)
        splits = (specs, _TOKENS), (P(), specs, P())
        counted = jax.shard_map(inside, mesh=mesh, in_specs=splits[0], out_specs=splits[1], check_vma=False)
    else:
        counted = GlobalLossAndGradients(spec, graph, specs, style_of(mode, mesh))

    def loss_and_gradients(params: nnx.State, batch: Batch) -> tuple[Float[Array, ""], nnx.State]:
        return counted(params, batch)[:2]

    def step(state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
        loss, gradients, dropped = counted(state.params, batch)
        return updated(state, gradients, optimizer=optimizer, spec=spec), Metrics(loss, norm_of(gradients), dropped)

    shardings = _state_shardings(mesh, specs=specs, params=params, optimizer=optimizer)
    tokens, everywhere = NamedSharding(mesh, _TOKENS), NamedSharding(mesh, P())
    jitted = jax.jit(step, donate_argnums=0, in_shardings=(shardings, tokens), out_shardings=(shardings, everywhere))
    return TrainStep(spec, mesh, jitted, loss_and_gradients, shardings)


def updated(state: TrainState, gradients: nnx.State, *, optimizer: Any, spec: StepSpec) -> TrainState:
    """Return the state after the optimizer's update."""
    with jax.named_scope(OPTIMIZER):
        updates, moments = optimizer.update(gradients, state.optimizer, state.params)
        params = apply_updates(state.params, updates, strategy=spec.strategy, step=state.step)
    return TrainState(params, moments, state.step + 1)


def norm_of(gradients: nnx.State) -> Float[Array, ""]:
    """Return the global norm, summed in fp32."""
    return optax.tree.norm(jax.tree.map(lambda leaf: leaf.astype(jnp.float32), gradients))


def pieces_of(spec: StepSpec, params: nnx.State, *, specs: nnx.State) -> Pieces:
    """Return the shards of the last dim of each parameter."""
    sizes, splits = axis_sizes(spec.strategy), _by_path(specs)
    dims = {path: len(leaf.shape) for path, leaf in _by_path(params).items()}

    def pieces(path: str) -> int:
        last = splits[path][-1] if len(splits[path]) == dims[path] else None
        return prod(sizes[axis] for axis in ((last,) if isinstance(last, str) else last or ()))

    return pieces


def _by_path(tree: nnx.State) -> dict[str, Any]:
    pairs = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda x: isinstance(x, P))[0]
    return {jax.tree_util.keystr(path): leaf for path, leaf in pairs}


@dataclass(frozen=True)
class LossAndGradients:
    """The part inside ``shard_map``: all lengths are local."""

    spec: StepSpec
    graph: Any
    specs: nnx.State

    def __call__(self, params: nnx.State, batch: Batch) -> tuple[Float[Array, ""], nnx.State, Float[Array, ""] | None]:
        """Return the mean loss over the batch, gradients in their parameters' shardings, and dropped rows."""
        tokens_over: tuple[str, ...] = (*BATCH_AXES, CONTEXT)
        valid = all_reduce((batch.targets_BT != IGNORE).sum(), tokens_over)
        scale = 1 / valid.astype(jnp.float32)
        share_and_gradients = jax.value_and_grad(partial(self._loss_share, scale=scale), has_aux=True)
        with jax.default_matmul_precision("highest" if self.spec.workload.precision == "fp32" else "default"):
            parts = jax.tree.map(lambda x: x.reshape(self.spec.strategy.microbatches, -1, *x.shape[1:]), batch)
            params, wide = differentiated(params, self.spec.strategy), self.spec.strategy.grad_dtype == "fp32"
            if self.spec.piped:
                ends, tokens_over = Ends(self.spec, parts, scale), (*tokens_over, PIPE)
                loss_and_dropped, gradients = through_stages(nnx.merge(self.graph, params), ends, like=params)
            else:
                loss_and_dropped, gradients = accumulate(lambda part: share_and_gradients(params, part), parts, wide=wide)
        loss, dropped = all_reduce(loss_and_dropped, tokens_over)
        return loss, self._summed(gradients), dropped

    def _loss_share(self, params: nnx.State, batch: Batch, *, scale: Array) -> tuple[Array, Array | None]:
        """No collective that sums the loss itself: gradients of all ranks' shares meet in the collectives' transposes."""
        model = nnx.merge(self.graph, params)
        policy = jax.tree.map(lambda x_BT: x_BT.reshape(-1), batch.policy)
        targets = Targets(batch.targets_BT.reshape(-1), scale, policy)
        return model.loss(batch.tokens_BT, targets, documents=gathered(batch.documents_BT))

    def _summed(self, gradients: nnx.State) -> nnx.State:
        """Sum every gradient over the axes that replicate its parameter: matrices over data, norms over all."""
        leaves, tree = jax.tree.flatten(gradients)
        groups = defaultdict(list)
        for index, split in enumerate(jax.tree.leaves(self.specs, is_leaf=lambda x: isinstance(x, P))):
            replicated = tuple(axis for axis in self.spec.strategy.mesh_axes if axis not in axes_of(split))
            groups[replicated].append(index)
        for axes, indices in groups.items():
            for index, leaf in zip(indices, all_reduce([leaves[i] for i in indices], axes), strict=True):
                leaves[index] = leaf
        return jax.tree.unflatten(tree, leaves)


def _initial_state(spec: StepSpec) -> Callable[[Array], TrainState]:
    def state(key: Array) -> TrainState:
        params = master_params(nnx.state(Decoder(spec, nnx.Rngs(params=key)), nnx.Param), spec.strategy)
        optimizer = optimizer_of(spec.strategy, pieces=pieces_of(spec, params, specs=partition_specs(spec, params)))
        return TrainState(params, optimizer.init(params), jnp.zeros((), jnp.int32))

    return state


def _state_shardings(mesh: Mesh, *, specs: nnx.State, params: nnx.State, optimizer: Any) -> TrainState:
    """Give moments their parameters' shardings; counters are on every device."""
    everywhere = NamedSharding(mesh, P())
    placed = jax.tree.map(lambda split: NamedSharding(mesh, split), specs, is_leaf=lambda x: isinstance(x, P))
    found = owners(jax.eval_shape(optimizer.init, params), params, blocks=True).split(_by_path(specs))
    moments = jax.tree.map(lambda split: NamedSharding(mesh, split), found, is_leaf=lambda x: isinstance(x, P))
    return TrainState(placed, moments, everywhere)


def _with_sharding(shape: jax.ShapeDtypeStruct, sharding: NamedSharding) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape.shape, shape.dtype, sharding=sharding)
