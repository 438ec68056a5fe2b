"""Memory of the loss over chunks of tokens: logits, the head and its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cost_models.collectives.libtpu_reductions import reduced_everywhere
from cost_models.inputs.layout import Floats, Layout
from cost_models.memory.liveness import FP32_BYTES

LANES = 128
"""Elements to which libtpu pads the last dim of an array (its tiles have 8 rows of 128 elements)."""

HOST_LOGITS = 3.0
"""fp32 chunks of logits that a CPU executable holds in addition to an fp32 head: logits, exponentials, cotangent. With a single
chunk the cotangent overwrites the logits."""


@dataclass(frozen=True)
class Loss:
    """The loss over chunks of tokens; columns of shape ``[n]`` in bytes per device.

    Source: buffer assignments of XLA (jax 0.10.1), read in the tensors of docs/step.md.
    """

    layout: Layout

    @cached_property
    def table(self) -> Floats:
        """Elements of the gathered head: ``V D / t`` [elements]."""
        return self.layout.vocab_width * self.layout.setting.model.d_model

    @cached_property
    def gradient(self) -> Floats:
        """The head's whole gradient in fp32, summed over chunks: ``4 V D / t`` [bytes per device]."""
        return FP32_BYTES * self.table

    @cached_property
    def logits(self) -> Floats:
        """A chunk's fp32 logits, their cotangent, the gathered head and its gradient [bytes per device].

        With a single chunk the head's gradient is computed after the logits are freed, except on TPU of a head that is not the
        embedding.
        """
        layout = self.layout
        scores = layout.loss_chunk * layout.vocab_width
        if layout.setting.hardware.kind == "cpu":
            many = HOST_LOGITS * FP32_BYTES * scores + (layout.activation_bytes + FP32_BYTES) * self.table + self.gradient
            alone = (HOST_LOGITS - 1.0) * FP32_BYTES * scores + FP32_BYTES * self.table
            return np.where(layout.loss_chunks > 1, many, alone)
        cotangent = layout.held_bytes * scores
        if layout.setting.hardware.kind == "tpu":
            return FP32_BYTES * scores + layout.held_bytes * self.table + self._beside_logits_on_tpu(cotangent)
        alone = np.maximum(FP32_BYTES * scores, self.gradient)
        many = FP32_BYTES * scores + self.gradient
        return cotangent + layout.held_bytes * self.table + np.where(layout.loss_chunks > 1, many, alone)

    def _beside_logits_on_tpu(self, cotangent: Floats) -> Floats:
        """Return the buffers of a TPU in addition to the logits and the head [bytes per device].

        With several chunks both products compute the cotangent of a separate head's logits in place, if a device's vocabulary
        fills whole tiles. A head that is the embedding has the vocabulary in the other dim, and there the cotangent is a
        buffer. With one chunk and one microbatch its two moments are already copied to the layout of the gradient.
        """
        several = self.layout.loss_chunks > 1
        if not self.layout.setting.model.tied_embeddings:
            in_place = several & (self.layout.vocab_width % LANES == 0)
            return self.gradient + np.where(in_place, 0.0, cotangent)
        moments = self.layout.state.moments * self.table / self.layout.weight_shards
        return cotangent + np.where(several, self.gradient, moments * (self.layout.microbatches == 1))

    @cached_property
    def embedding(self) -> Floats:
        """The embedding's whole gradient, after the layers: ``r V D / t`` [bytes per device].

        Where libtpu compiles its reduction as an all-reduce, the sum is a second whole table, unless the first one is that of
        all microbatches. On TPU a device's columns of it are padded to a multiple of 128.
        """
        layout = self.layout
        whole = layout.reduce_bytes * self.table
        if layout.setting.hardware.kind != "tpu":
            return whole
        columns = layout.setting.model.d_model / layout.weight_shards
        sums = reduced_everywhere(layout) & (layout.setting.model.tied_embeddings | (layout.microbatches == 1))
        return whole * np.ceil(columns / LANES) * LANES / columns * (1.0 + sums)

    @cached_property
    def streams(self) -> Floats:
        """The last layer's output, its normed copy and its cotangent [bytes per device].

        With tensor above 1, a chunk of the latter two is also gathered over tensor.
        """
        layout = self.layout
        model = layout.setting.model
        shards = 3.0 * layout.held_bytes * layout.stream_tokens * model.d_model
        chunks = 2.0 * layout.held_bytes * layout.loss_chunk * model.d_model
        return shards + np.where(layout.tensor > 1, chunks, 0.0)
