"""One attention call by the strategy's scheme: the island of ``shard_map`` that the step has in every sharding mode."""

from __future__ import annotations

from functools import partial

import jax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float

from lcplan.parts import Part
from lcplan.strategy import Strategy
from lcplan.strategy.attention_kernel import AttentionKernel
from strategies.inputs.step_spec import StepSpec
from strategies.parallel.mesh import BATCH_AXES, CONTEXT, TENSOR, platform_of
from strategies.parts.operands import Operand, Traced
from strategies.schemes import attend

_QUERIES = P(BATCH_AXES, CONTEXT, TENSOR)
_KEYS_VALUES = P(None, BATCH_AXES, CONTEXT, TENSOR)


def attention(part: Part, strategy: Strategy, mesh: Mesh, *, kernel: AttentionKernel) -> Traced:
    """Causal attention of queries ``B T N H`` on keys and values ``2 B T K H``."""
    spec = StepSpec(part.model, part.workload, strategy, kernel, platform_of(mesh))
    B, T, N, K, H = (part.sizes[dim] for dim in "BTNKH")
    operands = Operand((B, T, N, H), _QUERIES), Operand((2, B, T, K, H), _KEYS_VALUES)
    splits = tuple(one.split for one in operands)
    island = jax.shard_map(partial(_attend, spec=spec), mesh=mesh, in_specs=splits, out_specs=_QUERIES, check_vma=False)
    return Traced(island, operands, _QUERIES)


def _attend(q: Float[Array, "B T N H"], kv: Float[Array, "2 B T K H"], *, spec: StepSpec) -> Float[Array, "B T N H"]:
    return attend(q, kv, spec=spec, documents=None)
