"""Both ends of a pipeline, dealt out over its stages: each embeds its own rows of a microbatch, and makes the loss of its own.

So no stage has more to do than another, and a tied table needs nothing special. Both tables are split over ``pipe`` too, along
D and innermost; they are gathered over it once a step, and their gradients are reduced over it once a step.

Inside ``shard_map``: all lengths are local. U tokens of a context rank, R rows of its residual stream, r = R / pipe of a stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Shaped

from strategies.inputs.step_spec import StepSpec
from strategies.layers.activation import rms_norm
from strategies.model.batch import Batch
from strategies.model.embedding import embed
from strategies.model.loss import Head, Hidden, Targets, vocabulary_loss
from strategies.parallel.collectives import all_gather, reduce_scatter
from strategies.parallel.mesh import PIPE, TENSOR
from strategies.parallel.ranks import axis_index, axis_size

TABLES = ("embedding", "head")
Parameters = Mapping[str, Any]


def gathered_tables(own: Parameters) -> dict[str, Any]:
    """The parameters outside the layers, tables with the columns of all stages: one gather per step."""
    return {name: all_gather(x.T, PIPE).T if name in TABLES else x for name, x in own.items()}


def reduced_tables(gradients: Parameters) -> dict[str, Any]:
    """The transpose: gradients of tables as they are stored; of the norm this stage's share, which every axis replicates."""
    return {name: reduce_scatter(x.T, PIPE).T if name in TABLES else x for name, x in gradients.items()}


@dataclass(frozen=True, eq=False)
class Ends:
    """Embedding and loss of a stage's own rows."""

    spec: StepSpec
    parts: Batch
    """Microbatches on the leading dim."""
    scale: Float[Array, ""]
    """One over the number of tokens of the batch that have a target."""

    def embedded(self, table_Vd: Float[Array, "V d"], microbatch: Int[Array, ""]) -> Float[Array, "R D"]:
        """The residual stream of a microbatch, whole on every stage; the first one uses it."""
        tokens = self._own(self.parts.tokens_BT[microbatch])
        return all_gather(embed(table_Vd, tokens, numerics=self.spec.numerics), PIPE)

    def dealt(self, y_RD: Float[Array, "R D"]) -> Float[Array, "r D"]:
        """A stage's own rows of the last stage's output."""
        last = axis_index(PIPE) == axis_size(PIPE) - 1
        return reduce_scatter(jnp.where(last, y_RD, jnp.zeros((), y_RD.dtype)), PIPE)

    def loss(self, outside: Parameters, y_rD: Float[Array, "r D"], microbatch: Int[Array, ""]) -> Float[Array, ""]:
        """The share of the mean loss of a stage's own rows."""
        targets, policy = jax.tree.map(lambda x: self._own(x[microbatch]), (self.parts.targets_BT, self.parts.policy))
        h_rD = rms_norm(y_rD, outside["norm"], eps=self.spec.model.norm_eps)
        head = outside["head" if "head" in outside else "embedding"]
        return vocabulary_loss(Hidden(h_rD, head), Targets(targets, self.scale, policy), head=Head.of(self.spec))

    def _own(self, x_BT: Shaped[Array, "B T"]) -> Shaped[Array, " u"]:
        """Values of a stage's own tokens: rows ``stage r`` and on of every tensor rank."""
        by_stage = x_BT.reshape(axis_size(TENSOR), axis_size(PIPE), -1)
        return lax.dynamic_index_in_dim(by_stage, axis_index(PIPE), 1, keepdims=False).reshape(-1)
