"""The sharding of every parameter.

The D dim of matrices over fsdp x context x expert (of the experts' over fsdp x context), experts over expert, heads, columns
and vocabulary over tensor.
"""

from __future__ import annotations

from typing import Any

import jax
from flax import nnx
from jax.sharding import PartitionSpec as P

from strategies.inputs.step_spec import StepSpec
from strategies.parallel.mesh import EXPERT, EXPERT_STATE_AXES, PIPE, STATE_AXES, TENSOR

SPLIT = {
    "embedding": P(TENSOR, STATE_AXES),  # V D
    "head": P(TENSOR, STATE_AXES),  # V D
    "query": P(STATE_AXES, TENSOR),  # D N H
    "key_value": P(STATE_AXES, None, TENSOR),  # D 2 K H
    "out": P(STATE_AXES, TENSOR),  # D N H
    "gate": P(STATE_AXES, TENSOR),  # D F
    "up": P(STATE_AXES, TENSOR),  # D F
    "down": P(STATE_AXES, TENSOR),  # D F
    "router": P((*STATE_AXES, TENSOR)),  # D E
    "expert_gate": P(EXPERT_STATE_AXES, EXPERT, TENSOR),  # D E F
    "expert_up": P(EXPERT_STATE_AXES, EXPERT, TENSOR),  # D E F
    "expert_down": P(EXPERT_STATE_AXES, EXPERT, TENSOR),  # D E F
    "shared_gate": P(STATE_AXES, TENSOR),  # D F
    "shared_up": P(STATE_AXES, TENSOR),  # D F
    "shared_down": P(STATE_AXES, TENSOR),  # D F
    "query_bias": P(TENSOR),  # N H
    "key_value_bias": P(None, TENSOR),  # 2 K H
    "gate_bias": P(TENSOR),  # F
    "up_bias": P(TENSOR),  # F
}
_SPLIT_KV_REPLICATED = {
    "key_value": P((*STATE_AXES, TENSOR)),
    "key_value_bias": P(),
}
_SPLIT_PIPED = dict.fromkeys(("embedding", "head"), P(TENSOR, (*STATE_AXES, PIPE)))
"""Stages gather both tables over ``pipe`` once a step, and find the shards of a step without stages."""


def split_of(spec: StepSpec, parameter: str) -> P:
    """How one layer's (or the table's) parameter of this name is split; ``P()`` is on every device whole."""
    split = SPLIT | (_SPLIT_KV_REPLICATED if spec.kv_replicated else {}) | (_SPLIT_PIPED if spec.piped else {})
    return split.get(parameter, P())


def partition_specs(spec: StepSpec, params: nnx.State) -> nnx.State:
    """A PartitionSpec for each parameter, in the tree of ``params``; stages split the layers' leading dim L."""

    def place(path: tuple[Any, ...], _: Any) -> P:
        names = [part.key for part in path if isinstance(part, jax.tree_util.DictKey)]
        own = split_of(spec, names[-1])
        return P(PIPE if spec.piped else None, *own) if names[0] == "layers" else own

    return jax.tree_util.tree_map_with_path(place, params)


def axes_of(split: P) -> set[str]:
    """All mesh axes that a PartitionSpec names."""
    parts = (part if isinstance(part, tuple) else (part,) for part in split)
    return {axis for part in parts for axis in part if axis is not None}
