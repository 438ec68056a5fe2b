"""The decoder as flax nnx modules, written for ``shard_map``: parameters are shards, all lengths are local.

B sequences, T positions of each and U = B T tokens on a context rank; R = U / tensor of these tokens in a device's residual
stream, which is split over tensor wherever nothing multiplies it. N, K and F are this tensor rank's share. Parameters are
fp32 masters; ``column`` and ``row`` gather their matrices, norms and biases act in fp32.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jaxtyping import Array, Float, Int

from lcplan.strategy.remat import LAYER_IN
from strategies.inputs.step_spec import StepSpec
from strategies.layers.activation import ACTIVATIONS, rms_norm
from strategies.layers.parameter import matrix, vector
from strategies.layers.rope import Angles, angles, rotate
from strategies.model.embedding import embed
from strategies.model.layer_loops import stacked_runs, through_runs
from strategies.model.loss import Head, Hidden, Targets, token_log_probs, vocabulary_loss
from strategies.moe.layer import ExpertFeedForward
from strategies.parallel.collective_matmul import Pieces, joined
from strategies.parallel.linear import Gather, column, own_head, row
from strategies.parallel.mesh import STATE_AXES, TENSOR
from strategies.parallel.remat import name
from strategies.schemes import attend
from strategies.schemes.documents import Documents, TokenFacts
from strategies.schemes.layout import local_positions


def _whole(y: Float[Array, "U ..."] | Pieces) -> Float[Array, "U ..."]:
    """Rows in order: attention needs them so, the feed-forward does not."""
    return joined(y) if isinstance(y, tuple) else y


def biased(y: Float[Array, ...], bias: nnx.Param | None) -> Float[Array, ...]:
    """``y`` with its bias, added in fp32, so that the bias's gradient is an fp32 sum over tokens."""
    return y if bias is None else (y.astype(jnp.float32) + bias[...]).astype(y.dtype)


class Attention(nnx.Module):
    """RMSNorm, grouped-query attention with RoPE, output product."""

    def __init__(self, spec: StepSpec, rngs: nnx.Rngs) -> None:
        self.spec = spec
        model = spec.model
        D, N, K, H = model.d_model, model.heads, model.kv_heads, model.head_dim
        self.norm = vector(D, fill=1.0)
        self.query = matrix(rngs, D, N, H)
        self.key_value = matrix(rngs, D, 2, K, H)
        self.out = matrix(rngs, D, N, H)
        self.query_bias = vector(N, H) if model.qkv_bias else None
        self.key_value_bias = vector(2, K, H) if model.qkv_bias else None
        self.out_bias = vector(D) if model.out_bias else None
        self.query_norm = vector(H, fill=1.0) if model.qk_norm else None
        self.key_norm = vector(H, fill=1.0) if model.qk_norm else None

    def __call__(self, x_RD: Float[Array, "R D"], tokens: TokenFacts) -> Float[Array, "R D"]:
        """Return attention's contribution to the residual stream."""
        q_BTNH, kv_2BTKH = self.heads(x_RD, tokens.rope)
        return self.output(attend(q_BTNH, kv_2BTKH, spec=self.spec, documents=tokens.documents))

    def output(self, o_BTNH: Float[Array, "B T N H"]) -> Float[Array, "R D"]:
        """Return the output product of attention."""
        o_UNH = o_BTNH.reshape(-1, *o_BTNH.shape[2:])
        added = row(o_UNH, self.out[...], how=Gather(self.spec.numerics), ways=self.spec.strategy.collective_matmul)
        return biased(added, self.out_bias)

    def heads(self, x_RD: Float[Array, "R D"], rope: Angles) -> tuple[Float[Array, "B T N H"], Float[Array, "2 B T K H"]]:
        """Queries, and keys and values in one buffer, of the normed rows, rotated by position; T is that of ``rope``.

        Remat may keep them rotated; where a norm comes between, as they enter it, for the norm's gradient needs that.
        """
        h_RD = rms_norm(x_RD, self.norm[...], eps=self.spec.model.norm_eps)
        how = Gather(self.spec.numerics), self._key_value_gather()
        ways = self.spec.strategy.collective_matmul
        q_UNH, kv_U2KH = map(_whole, column(h_RD, (self.query[...], self.key_value[...]), how=how, ways=ways))
        q_UNH, kv_U2KH = biased(q_UNH, self.query_bias), biased(kv_U2KH, self._key_value_bias())
        length = rope[0].shape[0]
        q, k, v = (x.reshape(-1, length, *x.shape[1:]) for x in (q_UNH, kv_U2KH[:, 0], kv_U2KH[:, 1]))
        q = self._positioned(q, self.query_norm, rope=rope, tensor="query")
        k = self._positioned(k, self.key_norm, rope=rope, tensor="key")
        return q, jnp.stack([k, name(v, "value")])

    def _positioned(self, x: Float[Array, "B T N H"], norm: nnx.Param | None, *, rope: Angles, tensor: str) -> Array:
        if norm is None:
            return name(rotate(x, rope), tensor)
        return rotate(rms_norm(name(x, tensor), norm[...], eps=self.spec.model.norm_eps), rope)

    def _key_value_gather(self) -> Gather:
        if not self.spec.kv_replicated:
            return Gather(self.spec.numerics)
        return Gather(self.spec.numerics, axes=(*STATE_AXES, TENSOR), heads=self.spec.model.kv_heads)

    def _key_value_bias(self) -> Float[Array, "2 K H"] | None:
        bias = self.key_value_bias
        if bias is None or not self.spec.kv_replicated:
            return bias
        return lax.dynamic_slice_in_dim(bias[...], own_head(self.spec.model.kv_heads), 1, axis=1)


class FeedForward(nnx.Module):
    """RMSNorm, gated product, activation, output product."""

    def __init__(self, spec: StepSpec, rngs: nnx.Rngs) -> None:
        self.spec = spec
        model = spec.model
        D, F = model.d_model, model.d_ff
        self.norm = vector(D, fill=1.0)
        self.gate, self.up, self.down = (matrix(rngs, D, F) for _ in range(3))
        self.gate_bias = vector(F) if model.mlp_bias else None
        self.up_bias = vector(F) if model.mlp_bias else None
        self.down_bias = vector(D) if model.mlp_bias else None

    def __call__(self, x_RD: Float[Array, "R D"]) -> Float[Array, "R D"]:
        """Return the feed-forward layer's contribution to the residual stream.

        Gate and up are two arrays, so that their gradients can take their places, element by element.
        """
        how, ways = Gather(self.spec.numerics), self.spec.strategy.collective_matmul
        h_RD = rms_norm(x_RD, self.norm[...], eps=self.spec.model.norm_eps)
        gate_UF, up_UF = column(h_RD, (self.gate[...], self.up[...]), how=(how, how), ways=ways)
        h_UF = jax.tree.map(self._gated, gate_UF, up_UF)
        return biased(row(h_UF, self.down[...], how=how, ways=ways), self.down_bias)

    def _gated(self, gate_UF: Float[Array, "U F"], up_UF: Float[Array, "U F"]) -> Float[Array, "U F"]:
        """Compute all rows, or one piece of a collective matmul."""
        gate_UF = name(biased(gate_UF, self.gate_bias), "gate")
        up_UF = name(biased(up_UF, self.up_bias), "up")
        return ACTIVATIONS[self.spec.model.activation](gate_UF) * up_UF


class Layer(nnx.Module):
    """One decoder layer."""

    def __init__(self, spec: StepSpec, rngs: nnx.Rngs) -> None:
        self.attention = Attention(spec, rngs)
        self.feed_forward = FeedForward(spec, rngs) if spec.model.routed is None else ExpertFeedForward(spec, rngs)

    def __call__(self, x_RD: Float[Array, "R D"], tokens: TokenFacts) -> tuple[Float[Array, "R D"], Float[Array, ""] | None]:
        """Return the residual stream after the layer, and with experts the dropped rows of this rank's tokens.

        The input is named inside: named outside, jax would offload nothing.
        """
        x_RD = name(x_RD, LAYER_IN)
        return self.joined(x_RD, self.attention(x_RD, tokens))

    def joined(self, x_RD: Float[Array, "R D"], attended_RD: Float[Array, "R D"]) -> tuple[Float[Array, "R D"], Any]:
        """Add attention and the feed-forward layer to the residual stream; also return the rows that experts dropped."""
        x_RD = name(x_RD + attended_RD, "attention_out")
        if isinstance(self.feed_forward, ExpertFeedForward):
            added_RD, dropped = self.feed_forward(x_RD)
            return x_RD + added_RD, dropped
        return x_RD + self.feed_forward(x_RD), None


class Decoder(nnx.Module):
    """Embedding, L layers with parameters stacked on a leading dim (``strategies.model.layer_loops``), final norm, head."""

    def __init__(self, spec: StepSpec, rngs: nnx.Rngs) -> None:
        self.spec = spec
        model = spec.model
        self.embedding = matrix(rngs, model.vocab, model.d_model)
        self.layers = stacked_runs(spec, rngs, make=Layer)
        self.norm = vector(model.d_model, fill=1.0)
        self.head = None if model.tied_embeddings else matrix(rngs, model.vocab, model.d_model)

    def loss(
        self, tokens_BT: Int[Array, "B T"], targets: Targets, *, documents: Documents = None
    ) -> tuple[Float[Array, ""], Float[Array, ""] | None]:
        """Return this context rank's share of the mean loss (see ``vocabulary_loss``), and with experts the dropped rows."""
        hidden, dropped = self._last(tokens_BT, documents)
        return vocabulary_loss(hidden, targets, head=Head.of(self.spec)), dropped

    def log_probs(self, tokens_BT: Int[Array, "B T"], targets_BT: Int[Array, "B T"]) -> Float[Array, "B T"]:
        """Return the log-probability of each target; 0 without one. Not to be differentiated."""
        hidden, _ = self._last(tokens_BT, None)
        return token_log_probs(hidden, targets_BT.reshape(-1), head=Head.of(self.spec)).reshape(targets_BT.shape)

    def _last(self, tokens_BT: Int[Array, "B T"], documents: Documents) -> tuple[Hidden, Float[Array, ""] | None]:
        """The normed rows after all layers with the head, and with experts the dropped rows."""
        spec = self.spec
        x_RD = embed(self.embedding[...], tokens_BT.reshape(-1), numerics=spec.numerics)
        x_RD, dropped = self._hidden(x_RD, documents)
        h_RD = rms_norm(x_RD, self.norm[...], eps=spec.model.norm_eps)
        head = self.embedding if self.head is None else self.head
        return Hidden(h_RD, head[...]), dropped

    def _hidden(self, x_RD: Float[Array, "R D"], documents: Documents) -> tuple[Float[Array, "R D"], Float[Array, ""] | None]:
        """Through all layers, one at a time."""
        spec = self.spec
        positions = local_positions(spec.strategy, spec.local_seq_len)
        rope = angles(spec.model, seq_len=spec.workload.seq_len, positions_T=positions)
        tokens = TokenFacts(rope, documents)
        return through_runs(self.layers, x_RD, lambda layer, x_RD: layer(x_RD, tokens), spec=spec)
