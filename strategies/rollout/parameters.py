"""Placement and dtype of a rollout's parameters, and the gather before the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from strategies.inputs.step_spec import StepSpec
from strategies.model.decoder import Decoder
from strategies.parallel.collectives import all_gather
from strategies.parallel.mesh import STATE_AXES, TENSOR
from strategies.parallel.placement import SPLIT, axes_of, partition_specs
from strategies.parallel.ranks import axis_index, axis_size
from strategies.rollout.sample_spec import SampleSpec

_MATRICES = frozenset(SPLIT) - {name for name in SPLIT if name.endswith("_bias")}


def graph_of(step: StepSpec) -> tuple[Any, nnx.State]:
    """The decoder of a step, and the shapes of its parameters."""
    graph, params = nnx.split(nnx.eval_shape(lambda: Decoder(step, nnx.Rngs(params=0))), nnx.Param)
    return graph, params


def given_shapes(spec: SampleSpec) -> nnx.State:
    """The shapes of the given parameters: fp32 masters, or matrices in the gather dtype."""
    shapes: nnx.State = jax.eval_shape(lambda tree: stored_dtype(spec, tree), graph_of(spec.served)[1])
    return shapes


def stored_dtype(spec: SampleSpec, params: nnx.State) -> nnx.State:
    """Cast parameters to their stored dtype: fsdp's shards are the trainer's fp32, read-only copies have the gather dtype."""
    if spec.sampling.parameters.startswith("gathered"):
        return params
    return jax.tree_util.tree_map_with_path(lambda path, x: _rounded(spec, path, x), params)


def _rounded(spec: SampleSpec, path: tuple[Any, ...], x: jax.Array) -> jax.Array:
    return x.astype(spec.served.numerics.gather) if _name(path) in _MATRICES else x


def _name(path: tuple[Any, ...]) -> str:
    return str([part.key for part in path if isinstance(part, jax.tree_util.DictKey)][-1])


def gather(spec: SampleSpec, mesh: Mesh, params: nnx.State) -> Callable[[nnx.State], nnx.State]:
    """Return the gather of fsdp's shards to a tensor rank's whole matrices, rounded first; whole parameters stay."""
    specs = partition_specs(spec.stored, params)
    whole = jax.tree.map(_without_state, specs, is_leaf=_is_spec)

    def collect(shards: nnx.State) -> nnx.State:
        flat, tree = jax.tree_util.tree_flatten_with_path(shards)
        splits = jax.tree.leaves(specs, is_leaf=_is_spec)
        return jax.tree.unflatten(
            tree, [_collected(spec, *leaf, split=split) for leaf, split in zip(flat, splits, strict=True)]
        )

    return jax.shard_map(collect, mesh=mesh, in_specs=(specs,), out_specs=whole, check_vma=False)


def _collected(spec: SampleSpec, path: tuple[Any, ...], shard: jax.Array, *, split: P) -> jax.Array:
    if not axes_of(split) & set(STATE_AXES):
        return shard
    dim = next(dim for dim, part in enumerate(split) if axes_of(P(part)) & set(STATE_AXES))
    axes = split[dim] if isinstance(split[dim], tuple) else (split[dim],)
    gathered = all_gather(jnp.moveaxis(_rounded(spec, path, shard), dim, 0), axes)
    if TENSOR in axes:  # shards of tensor ranks lie between those of fsdp's, so all are gathered and each rank keeps its own
        own = gathered.shape[0] // axis_size(TENSOR)
        gathered = lax.dynamic_slice_in_dim(gathered, axis_index(TENSOR) * own, own)
    return jnp.moveaxis(gathered, 0, dim)


def _without_state(split: P) -> P:
    parts = []
    for part in split:
        kept = tuple(axis for axis in (part if isinstance(part, tuple) else (part,)) if axis not in STATE_AXES)
        parts.append(kept if kept != (None,) and kept else None)
    return P(*parts)


def _is_spec(value: Any) -> bool:
    return isinstance(value, P)
