"""What a device holds at the few moments of a step that can need most memory, beyond its persistent state.

Each moment is read off the buffers that XLA's own assignment keeps alive there (jax 0.10.1, GPU targets), in terms of the
tensors of docs/step.md. XLA's scheduler starts what a collective waits for as early as it can and leaves products of
weight gradients for later, so a layer's feed-forward tensors are still there while its attention runs backward.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cost_models.layout import Floats, Layout

FP32_BYTES = 4.0

FEED_FORWARD_TENSORS = 4.0
"""Of gate's width: the cotangents of gate and up, the product that entered ``down``, and up's or gate's own value."""

STREAMS = 4.0
"""Of the gathered stream's size: the normed inputs of attention and feed-forward, and the cotangents of their outputs."""

ATTENTION_OPERANDS = 3.0
"""Of the queries' size: queries, output, the output's cotangent."""

STREAM_PRODUCTS = 2.0
"""Gathered streams that the gradients of gate and of up each make, before they are added."""


@dataclass(frozen=True)
class LayerBackward:
    """One layer's backward pass; columns of shape ``[n]`` in bytes a device."""

    layout: Layout

    @cached_property
    def stream(self) -> Floats:
        """The residual stream of a context rank's tokens, gathered over tensor: ``a tl D``."""
        return self.layout.activation_bytes * self.layout.tokens * self.layout.setting.model.d_model

    @cached_property
    def queries(self) -> Floats:
        """Queries, or any tensor of their shape: ``a tl N H / t``."""
        return self.layout.activation_bytes * self.layout.tokens * self.layout.query_width

    @cached_property
    def pair(self) -> Floats:
        """Keys and values of a chunk: ``2 a tl K H / t``."""
        return 2.0 * self.layout.activation_bytes * self.layout.tokens * self.layout.kv_width

    @cached_property
    def waiting(self) -> Floats:
        """What outlives the attention of the layer: feed-forward tensors, gathered streams, the stream's own cotangent.

        Where gate and up, or query, key and value, are kept, the normed stream that they came from is gathered again only
        when their weights' gradients are due.
        """
        layout = self.layout
        kept_up = layout.saves("gate") & layout.saves("up")
        kept_qkv = layout.saves("query") & layout.saves("key") & layout.saves("value")
        wide = layout.activation_bytes * layout.tokens * layout.ff_width
        shards = np.where(layout.tensor > 1, 1.0 + kept_up, 0.0)
        streams = STREAMS - kept_up - kept_qkv + shards / layout.tensor
        return wide * (FEED_FORWARD_TENSORS - kept_up) + self.stream * streams

    @cached_property
    def attention(self) -> Floats:
        """Operands of the attention kernel and what it works with, queries' side.

        A ring or gathered chunks add an fp32 sum of the queries' gradients; zigzag's half chunks are copied out (query,
        output, cotangent) and the gradient of half of them comes back.
        """
        layout = self.layout
        chunked = layout.rings | layout.is_scheme("all-gather")
        halves = chunked & ~layout.is_scheme("ring")
        sums = np.where(chunked, FP32_BYTES / layout.activation_bytes, 0.0)
        return self.queries * (ATTENTION_OPERANDS + sums + np.where(halves, 2.0, 1.0))

    @cached_property
    def keys(self) -> Floats:
        """Keys and values, and their gradients.

        The kernel's own operands and results; a ring adds a chunk in flight, a copy, and the fp32 gradients that travel with
        it; all-gather adds every rank's chunk and its fp32 gradients.
        """
        layout = self.layout
        wide = FP32_BYTES / layout.activation_bytes
        ring = np.where(layout.rings, 2.0 + wide, 0.0)
        gathered = np.where(layout.is_scheme("all-gather"), (1.0 + wide) * layout.context + 1.0, 0.0)
        return self.pair * (2.0 + ring + gathered)

    @cached_property
    def products(self) -> Floats:
        """What the layer holds where the feed-forward's gradients are joined, in place of ``attention`` and ``keys``."""
        return STREAM_PRODUCTS * self.stream + (ATTENTION_OPERANDS - 1.0) * self.queries

    @cached_property
    def weights(self) -> Floats:
        """Gathered query, key and value weights: ``g D (N + 2 K) H / t``."""
        layout = self.layout
        widths = layout.query_width + 2.0 * layout.kv_width
        return np.where(layout.weight_shards > 1, layout.gather_bytes * layout.setting.model.d_model * widths, 0.0)

    @cached_property
    def unreduced(self) -> Floats:
        """Whole weight gradients of the layer before, whose reduce-scatter runs beside this layer: ``r P_layer / t``."""
        layout = self.layout
        parameters = layout.setting.model.layer_matrix_parameters / layout.tensor
        return np.where(layout.weight_shards > 1, layout.reduce_bytes * parameters, 0.0)


@dataclass(frozen=True)
class Loss:
    """The loss over chunks of tokens; columns of shape ``[n]`` in bytes a device."""

    layout: Layout

    @cached_property
    def table(self) -> Floats:
        """Elements of the gathered head: ``V D / t``."""
        return self.layout.vocab_width * self.layout.setting.model.d_model

    @cached_property
    def gradient(self) -> Floats:
        """The head's whole gradient, fp32, summed over chunks; where there is one chunk it comes after the logits are gone."""
        return FP32_BYTES * self.table

    @cached_property
    def logits(self) -> Floats:
        """A chunk's fp32 logits, their cotangent, the gathered head, and its gradient summed over the chunks so far."""
        layout = self.layout
        chunk = layout.loss_chunk * layout.vocab_width * (FP32_BYTES + layout.activation_bytes)
        return chunk + layout.activation_bytes * self.table + np.where(layout.loss_chunks > 1, self.gradient, 0.0)

    @cached_property
    def streams(self) -> Floats:
        """Hidden states, their cotangent, and the last layer's attention, which the scheduler has begun to recompute."""
        layer = LayerBackward(self.layout)
        return 3.0 * layer.stream + 2.0 * layer.queries + 2.0 * layer.stream / self.layout.tensor
