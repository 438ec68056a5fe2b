"""The decoder over whole arrays: the parameters are those of ``strategies.model.decoder``, the layout in each array's place.

All lengths are global. The residual stream is sharded ``B/(data, fsdp) T/(context, tensor) D``, heads and columns over tensor,
as in the manual step. Only attention is a ``shard_map`` inside the program: no sharding expresses "rotate keys and
values", kernels such as cuDNN's take no sequence that is split, and trainers (MaxText among them) do the same. So every
context scheme is the same code in all three modes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from lcplan.strategy.remat import LAYER_IN
from strategies.inputs.step_spec import StepSpec
from strategies.layers.activation import ACTIVATIONS, rms_norm
from strategies.layers.rope import Angles, angles, rotate
from strategies.model.batch import Batch
from strategies.model.decoder import Attention, Decoder, FeedForward, Layer, biased
from strategies.model.layer_loops import through_runs
from strategies.parallel.linear import own_head
from strategies.parallel.mesh import BATCH_AXES, CONTEXT, TENSOR
from strategies.parallel.placement import split_of
from strategies.parallel.remat import name
from strategies.schemes import attend
from strategies.schemes.documents import cut
from strategies.schemes.layout import global_positions
from strategies.whole_array.embedding import embed
from strategies.whole_array.loss import Scaled, chunked_loss
from strategies.whole_array.products import Matrix, column, row
from strategies.whole_array.style import RESIDUAL, Style

_HEADS = P(BATCH_AXES, CONTEXT, TENSOR)


class Whole(NamedTuple):
    """Positions and documents of the tokens for attention; documents of whole sequences on every context rank."""

    rope: Angles
    documents_BT: Int[Array, "B T"] | None


@dataclass(frozen=True)
class GlobalView:
    """The forward pass of one step in one style."""

    spec: StepSpec
    style: Style

    def loss(self, model: Decoder, batch: Batch, scale: Float[Array, ""]) -> Float[Array, ""]:
        """The scaled loss of all tokens."""
        scaled = Scaled(batch.targets_BT, scale, batch.policy)
        x_BTD = embed(model.embedding[...], batch.tokens_BT, style=self.style, numerics=self.spec.numerics)
        h_BTD = self._norm(self._hidden(model, x_BTD, batch.documents_BT), model.norm)
        head = model.embedding if model.head is None else model.head
        return chunked_loss(h_BTD, head[...], scaled=scaled, spec=self.spec, style=self.style)

    def _hidden(
        self, model: Decoder, x_BTD: Float[Array, "B T D"], documents_BT: Int[Array, "B T"] | None
    ) -> Float[Array, "B T D"]:
        spec = self.spec
        positions_T = global_positions(spec.strategy, spec.workload.seq_len)
        rope = angles(spec.model, seq_len=spec.workload.seq_len, positions_T=self.style.place(positions_T, P(CONTEXT)))
        whole = None if documents_BT is None else self.style.place(documents_BT, P(BATCH_AXES))

        def layer(own: Layer, x_BTD: Array) -> tuple[Array, None]:
            return self._layer(own, x_BTD, Whole(rope, whole)), None

        return through_runs(model.layers, x_BTD, layer, spec=spec)[0]

    def _layer(self, layer: Layer, x_BTD: Float[Array, "B T D"], tokens: Whole) -> Float[Array, "B T D"]:
        x_BTD = name(x_BTD, LAYER_IN)
        x_BTD = name(x_BTD + self._attention(layer.attention, x_BTD, tokens), "attention_out")
        return self.style.place(x_BTD + self._feed_forward(layer.feed_forward, x_BTD), RESIDUAL)

    def _attention(self, own: Attention, x_BTD: Float[Array, "B T D"], tokens: Whole) -> Float[Array, "B T D"]:
        h_BTD = self._norm(x_BTD, own.norm)
        q = biased(column(h_BTD, own.query[...], how=self._matrix("query")), own.query_bias)
        kv = biased(column(h_BTD, own.key_value[...], how=self._key_value()), own.key_value_bias)
        q = self._positioned(q, own.query_norm, rope=tokens.rope, tensor="query")
        k = self._positioned(kv[:, :, 0], own.key_norm, rope=tokens.rope, tensor="key")
        o_BTNH = self._island(q, jnp.stack([k, name(kv[:, :, 1], "value")]), tokens.documents_BT)
        return biased(row(o_BTNH, own.out[...], how=self._matrix("out")), own.out_bias)

    def _feed_forward(self, own: FeedForward, x_BTD: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        h_BTD = self._norm(x_BTD, own.norm)
        gate = name(biased(column(h_BTD, own.gate[...], how=self._matrix("gate")), own.gate_bias), "gate")
        up = name(biased(column(h_BTD, own.up[...], how=self._matrix("up")), own.up_bias), "up")
        h_BTF = ACTIVATIONS[self.spec.model.activation](gate) * up
        return biased(row(h_BTF, own.down[...], how=self._matrix("down")), own.down_bias)

    def _positioned(self, x: Float[Array, "B T N H"], norm: nnx.Param | None, *, rope: Angles, tensor: str) -> Array:
        """Keep the tensor as in the manual step: rotated, or as it enters its norm."""
        if norm is None:
            return name(rotate(x, rope), tensor)
        return rotate(self._norm(name(x, tensor), norm), rope)

    def _norm(self, x: Float[Array, "... D"], weight: nnx.Param) -> Float[Array, "... D"]:
        return rms_norm(x, weight[...], eps=self.spec.model.norm_eps)

    def _matrix(self, parameter: str) -> Matrix:
        stored = split_of(self.spec, parameter)
        return Matrix(self.style, self.spec.numerics, stored=stored, used=P(None, *stored[1:]))

    def _key_value(self) -> Matrix:
        """Columns are 2 K H: K over tensor, or on every tensor rank where those outnumber the heads."""
        stored = split_of(self.spec, "key_value")
        heads = None if self.spec.kv_replicated else TENSOR
        columns = P(BATCH_AXES, CONTEXT, None, heads)
        return Matrix(self.style, self.spec.numerics, stored=stored, used=P(None, None, heads), columns=columns)

    def _island(
        self, q: Float[Array, "B T N H"], kv: Float[Array, "2 B T K H"], documents_BT: Int[Array, "B T"] | None
    ) -> Float[Array, "B T N H"]:
        """Attention by the strategy's scheme, with local lengths inside; documents of whole sequences."""
        heads = None if self.spec.kv_replicated else TENSOR
        kv_split = P(None, BATCH_AXES, CONTEXT, heads)
        inside = partial(_attend, spec=self.spec)
        splits = _HEADS, kv_split, P(BATCH_AXES)
        island = jax.shard_map(inside, mesh=self.style.mesh, in_specs=splits, out_specs=_HEADS, check_vma=False)
        return island(q, self.style.place(kv, kv_split), documents_BT)


def _attend(
    q: Float[Array, "B T N H"], kv: Float[Array, "2 B T K H"], documents_BT: Int[Array, "B CT"] | None, *, spec: StepSpec
) -> Float[Array, "B T N H"]:
    """Inside ``shard_map``: all lengths are local. Where tensor ranks outnumber KV heads each keeps its own head."""
    if spec.kv_replicated:
        kv = lax.dynamic_slice_in_dim(kv, own_head(spec.model.kv_heads), 1, axis=3)
    return attend(q, kv, spec=spec, documents=cut(documents_BT, spec.strategy.mesh.context))
