"""One rank's share of a train step on a single device: its shapes, its kernels, its remat; the others only thought of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float

from lcplan.formats.errors import BadInputError
from strategies.inputs.step_spec import StepSpec
from strategies.model.batch import Batch
from strategies.model.decoder import Decoder
from strategies.parallel.mesh import CONTEXT, axis_sizes
from strategies.parallel.placement import partition_specs
from strategies.parallel.ranks import Rank, alone
from strategies.parallel.stored import master_params
from strategies.schemes.layout import token_order, zigzag
from strategies.train.limits import check
from strategies.train.optimizer import optimizer_of
from strategies.train.step import LossAndGradients, Metrics, TrainState, norm_of, updated


@dataclass(frozen=True)
class Slice:
    """The step of one rank, to be timed as a ``TrainStep`` is: arrays are as large as the rank's shards."""

    spec: StepSpec
    jitted: Any
    shapes: nnx.State

    def init(self, key: Array) -> TrainState:
        """Random shards of parameters, spread as a model's are."""
        leaves, tree = jax.tree.flatten(self.shapes)
        keys = jax.random.split(key, len(leaves))
        made = [_random(one, leaf) for one, leaf in zip(keys, leaves, strict=True)]
        params = jax.tree.unflatten(tree, made)
        return TrainState(params, optimizer_of(self.spec.strategy).init(params), jnp.zeros((), jnp.int32))

    def example_batch(self, key: Array) -> Batch:
        """Random tokens of this rank; with documents, the ids of all ranks' tokens."""
        strategy, workload = self.spec.strategy, self.spec.workload
        shape = workload.global_batch // (strategy.mesh.data * strategy.mesh.fsdp), self.spec.local_seq_len
        tokens = jax.random.randint(key, shape, 0, self.spec.model.vocab, jnp.int32)
        if workload.document_len is None:
            return Batch(tokens, tokens)
        ids = jnp.asarray(token_order(strategy, seq_len=workload.seq_len) // workload.document_len, jnp.int32)
        return Batch(tokens, tokens, jnp.broadcast_to(ids, (shape[0], workload.seq_len)))


def slowest_rank(spec: StepSpec) -> Rank:
    """The context rank with most keys to attend to, of several the last: it sees every chunk of a contiguous ring.

    Without documents all ranks of the balanced layouts work alike; with them whoever holds most ends of documents has most to
    do. Only blockwise attention leaves out parts of a chunk; any kernel leaves out chunks that share no document. Layers count
    each by its window.
    """
    sizes, strategy = axis_sizes(spec.strategy), spec.strategy
    work = _keys(spec) if spec.kernel == "blockwise" else _visits(spec)
    slowest = (len(work) - int(np.argmax(work[::-1]))) * strategy.ulysses - 1
    return Rank(sizes, {axis: slowest if axis == CONTEXT else 0 for axis in sizes})


def _keys(spec: StepSpec) -> np.ndarray:
    """Count the keys that each chunk's queries attend to in all layers, up to a common term."""
    length = spec.workload.seq_len
    offsets = token_order(spec.strategy, seq_len=length) % (spec.workload.document_len or length)
    kinds = spec.model.layer_kinds.items()
    seen = sum(layers * np.minimum(offsets, (kind.window or length) - 1) for kind, layers in kinds)
    return np.asarray(seen).reshape(spec.strategy.mesh.context // spec.strategy.ulysses, -1).sum(axis=1)


def _visits(spec: StepSpec) -> np.ndarray:
    """Other chunks that share a document with each chunk's queries: those between a run's first token and its document's.

    Layers with a window do not count: their call has the same size on every rank.
    """
    strategy, length = spec.strategy, spec.workload.seq_len
    chunks = strategy.mesh.context // strategy.ulysses
    halves = 2 if zigzag(strategy) else 1
    run = length // (chunks * halves)
    first = token_order(strategy, seq_len=length)[::run].reshape(chunks, halves)
    back = -(-(first % (spec.workload.document_len or length)) // run)
    own, windows = np.arange(chunks), [kind.window for kind in spec.model.layer_kinds]
    if all(window is not None and window < length for window in windows):
        return np.zeros(chunks)
    return back[:, 0] + (np.minimum(back[:, 1], chunks - 1 - own) if halves == 2 else 0)


def build_slice(spec: StepSpec) -> Slice:
    """The slowest rank's step of ``spec``.

    Raises
    ------
    BadInputError
        The program cannot run this, or no rank has a program of its own: another sharding mode than manual, or experts.
    """
    check(spec)
    strategy = spec.strategy
    if strategy.sharding_mode != "manual" or strategy.mesh.expert > 1 or spec.model.experts is not None:
        raise BadInputError(
            f"{strategy.label}: a slice is one rank of the manual step of a dense model; time the whole step instead"
        )
    if spec.piped:
        raise BadInputError(f"{strategy.label}: a slice is one rank of a step without a pipeline; time the whole step instead")
    graph, params = nnx.split(nnx.eval_shape(lambda: Decoder(spec, nnx.Rngs(params=0))), nnx.Param)
    specs, rank = partition_specs(spec, params), slowest_rank(spec)
    params = jax.eval_shape(partial(master_params, strategy=strategy), params)
    shapes = jax.tree.map(lambda split, leaf: _local(leaf, split, rank), specs, params, is_leaf=lambda x: isinstance(x, P))
    inside, optimizer = LossAndGradients(spec, graph, specs), optimizer_of(strategy)

    def step(state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
        with alone(rank):
            loss, gradients, dropped = inside(state.params, batch)
        return updated(state, gradients, optimizer=optimizer, spec=spec), Metrics(loss, norm_of(gradients), dropped)

    return Slice(spec, jax.jit(step, donate_argnums=0), shapes)


def _local(leaf: jax.ShapeDtypeStruct, split: P, rank: Rank) -> jax.ShapeDtypeStruct:
    """A shard's shape."""
    shape = list(leaf.shape)
    for dim, axes in enumerate(split):
        for axis in (axes,) if isinstance(axes, str) else axes or ():
            shape[dim] //= rank.sizes[axis]
    return jax.ShapeDtypeStruct(tuple(shape), leaf.dtype)


def _random(key: Array, leaf: jax.ShapeDtypeStruct) -> Float[Array, ...]:
    return 0.02 * jax.random.normal(key, leaf.shape, leaf.dtype)
