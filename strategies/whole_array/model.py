"""The decoder over whole arrays: the parameters are those of ``strategies.model.decoder``, the layout in each array's place.

All lengths are global. The residual stream is sharded ``B/(data, fsdp) T/(context, tensor) D``, heads and columns over tensor,
as in the manual step. Only attention is a ``shard_map`` inside the program: no sharding expresses "rotate keys and
values", kernels such as cuDNN's take no sequence that is split, and trainers (MaxText among them) do the same. So every
context scheme is the same code in all three modes.
"""

from __future__ import annotations

from collections.abc import Callable
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
from strategies.moe.layer import ExpertFeedForward
from strategies.moe.shared import weighed
from strategies.parallel.linear import own_head
from strategies.parallel.mesh import BATCH_AXES, CONTEXT, TENSOR
from strategies.parallel.placement import split_of
from strategies.parallel.remat import name
from strategies.schemes import attend
from strategies.schemes.documents import cut
from strategies.schemes.layout import global_positions
from strategies.whole_array.embedding import embed
from strategies.whole_array.experts import Parameters, routed
from strategies.whole_array.loss import Scaled, chunked_loss
from strategies.whole_array.products import Matrix, column, row
from strategies.whole_array.style import RESIDUAL, TOKENS, Style

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

    def loss(self, model: Decoder, batch: Batch, scale: Float[Array, ""]) -> tuple[Float[Array, ""], Float[Array, ""] | None]:
        """The scaled loss of all tokens, and with experts the dropped rows."""
        scaled = Scaled(batch.targets_BT, scale, batch.policy)
        x_BTD = embed(model.embedding[...], batch.tokens_BT, style=self.style, numerics=self.spec.numerics)
        x_BTD, dropped = self._hidden(model, x_BTD, batch.documents_BT)
        head = model.embedding if model.head is None else model.head
        h_BTD = self._norm(x_BTD, model.norm)
        return chunked_loss(h_BTD, head[...], scaled=scaled, spec=self.spec, style=self.style), dropped

    def _hidden(
        self, model: Decoder, x_BTD: Float[Array, "B T D"], documents_BT: Int[Array, "B T"] | None
    ) -> tuple[Float[Array, "B T D"], Float[Array, ""] | None]:
        spec = self.spec
        positions_T = global_positions(spec.strategy, spec.workload.seq_len)
        rope = angles(spec.model, seq_len=spec.workload.seq_len, positions_T=self.style.place(positions_T, P(CONTEXT)))
        whole = None if documents_BT is None else self.style.place(documents_BT, P(BATCH_AXES))

        def layer(own: Layer, x_BTD: Array) -> tuple[Array, Array | None]:
            return self._layer(own, x_BTD, Whole(rope, whole))

        return through_runs(model.layers, x_BTD, layer, spec=spec)

    def _layer(
        self, layer: Layer, x_BTD: Float[Array, "B T D"], tokens: Whole
    ) -> tuple[Float[Array, "B T D"], Float[Array, ""] | None]:
        x_BTD = name(x_BTD, LAYER_IN)
        x_BTD = name(x_BTD + self._attention(layer.attention, x_BTD, tokens), "attention_out")
        fed, dropped = layer.feed_forward, None
        if isinstance(fed, ExpertFeedForward):
            added_BTD, dropped = self._experts(fed, x_BTD)
        else:
            added_BTD = self._feed_forward(fed, x_BTD)
        return self.style.place(x_BTD + added_BTD, RESIDUAL), dropped

    def _attention(self, own: Attention, x_BTD: Float[Array, "B T D"], tokens: Whole) -> Float[Array, "B T D"]:
        h_BTD = self._norm(x_BTD, own.norm)
        q = biased(column(h_BTD, own.query[...], how=self._matrix("query")), own.query_bias)
        kv = biased(column(h_BTD, own.key_value[...], how=self._key_value()), own.key_value_bias)
        q = self._positioned(q, own.query_norm, rope=tokens.rope, tensor="query")
        k = self._positioned(kv[:, :, 0], own.key_norm, rope=tokens.rope, tensor="key")
        inside = partial(_attend, spec=own.spec)
        o_BTNH = self._island(inside, q, jnp.stack([k, name(kv[:, :, 1], "value")]), documents_BT=tokens.documents_BT)
        return biased(row(o_BTNH, own.out[...], how=self._matrix("out")), own.out_bias)

    def _feed_forward(self, own: FeedForward, x_BTD: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        h_BTD = self._norm(x_BTD, own.norm)
        gate = name(biased(column(h_BTD, own.gate[...], how=self._matrix("gate")), own.gate_bias), "gate")
        up = name(biased(column(h_BTD, own.up[...], how=self._matrix("up")), own.up_bias), "up")
        h_BTF = ACTIVATIONS[self.spec.model.activation](gate) * up
        return biased(row(h_BTF, own.down[...], how=self._matrix("down")), own.down_bias)

    def _experts(self, own: ExpertFeedForward, x_BTD: Float[Array, "B T D"]) -> tuple[Float[Array, "B T D"], Float[Array, ""]]:
        h_BTD = self._norm(x_BTD, own.norm)
        parameters = Parameters(own.router[...], own.expert_gate[...], own.expert_up[...], own.expert_down[...])
        y_BTD, dropped = routed(self.style.place(h_BTD, TOKENS), parameters, spec=own.spec, style=self.style)
        added_BTD = self.style.place(y_BTD, RESIDUAL)
        experts = own.spec.model.routed
        assert experts is not None
        return added_BTD + self._shared(own, h_BTD) if experts.shared_d_ff else added_BTD, dropped

    def _shared(self, own: ExpertFeedForward, h_BTD: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        """The shared experts are a dense gated product of all tokens, whose result a sigmoid of the token may weigh."""
        gate = name(column(h_BTD, own.shared_gate[...], how=self._matrix("shared_gate")), "gate")
        up = name(column(h_BTD, own.shared_up[...], how=self._matrix("shared_up")), "up")
        inner_BTF = ACTIVATIONS[self.spec.model.activation](gate) * up
        if own.shared_weight is not None:
            weights_BT = weighed(self.style.place(h_BTD, TOKENS), own.shared_weight[...])
            inner_BTF = (inner_BTF.astype(jnp.float32) * weights_BT[..., None]).astype(inner_BTF.dtype)
        return row(inner_BTF, own.shared_down[...], how=self._matrix("shared_down"))

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
        self,
        inside: Callable[..., Array],
        q: Float[Array, "B T N H"],
        kv: Float[Array, "2 B T K H"],
        *,
        documents_BT: Int[Array, "B T"] | None,
    ) -> Float[Array, "B T N H"]:
        """Attention by the strategy's scheme, with local lengths inside; documents of whole sequences."""
        heads = None if self.spec.kv_replicated else TENSOR
        kv_split = P(None, BATCH_AXES, CONTEXT, heads)
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
