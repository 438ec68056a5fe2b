"""Memory of a PyTorch trainer's step on one device: what autograd keeps, what the optimizer holds, the logits' copies.

PyTorch frees a tensor when the last kernel that reads it is launched, so a step's peak is at one of two moments: when the last
layer's activations and the logits' gradient are there, or when one layer's backward pass has all that it needs. The total is
the allocator's peak of allocated bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cost_models.kept import kept_bytes
from cost_models.layout import Floats, Layout
from cost_models.memory import MEMORY_PARTS, PHASES
from lcplan.remat import LAYER_IN

FP32_BYTES = 4.0

LOGIT_BYTES = 12.0
"""Of one logit at once: bf16 logits, their fp32 copy, the fp32 gradient and its bf16 copy for the product."""

FUSED_LOGIT_BYTES = 8.0
"""Of one logit with a fused cross entropy that makes the gradient in place: bf16 logits, their fp32 copy, the bf16 gradient."""

RESERVED_OF_ALLOCATED = 1.06
"""The allocator's pool over what is allocated in it: 70.88 GiB over 66.55 and 92.26 over 87.08 (SimuMax's Megatron-LM runs on
B200, github MooreThreads/SimuMax docs/b200/b200_release_v1.2_summary)."""


@dataclass(frozen=True)
class TorchMemory:
    """Memory parts of each candidate; every property is a column of shape ``[n]`` in bytes a device."""

    layout: Layout

    @cached_property
    def _elements(self) -> Floats:
        """Parameters on one device as weights are split."""
        return self.layout.setting.model.parameters / self.layout.state_shards

    @cached_property
    def params(self) -> Floats:
        """fp32 weights, split with the optimizer; and those in the compute dtype where they are held beside them."""
        copy = self.layout.activation_bytes if self.layout.setting.program.compute_copy else 0.0
        return (FP32_BYTES / self.layout.optimizer_shards + copy) * self._elements

    @cached_property
    def optimizer(self) -> Floats:
        """AdamW's two moments."""
        return 2.0 * self.layout.moment_bytes * self._elements / self.layout.optimizer_shards

    @cached_property
    def grads(self) -> Floats:
        """Gradients of a device's weights; fp32, or bf16 where they are reduced in it."""
        return (2.0 if self.layout.setting.program.pure_bf16 else FP32_BYTES) * self._elements

    @cached_property
    def _stream(self) -> Floats:
        """One residual stream as a device holds it between products."""
        layout = self.layout
        tokens = layout.stream_tokens if layout.setting.program.sequence_parallel else layout.tokens
        return layout.activation_bytes * tokens * layout.setting.model.d_model

    @cached_property
    def layer_activations(self) -> Floats:
        """All that autograd keeps of one layer: both norms' inputs and outputs, query, key, value, attention's output and
        log-sum-exp, gate, up, the activated gate and their product; scores and weights too where attention is not fused."""
        layout, program = self.layout, self.layout.setting.program
        token = layout.activation_bytes * layout.tokens
        attention = token * (2.0 * layout.query_width + 2.0 * layout.kv_width)
        statistics = FP32_BYTES * layout.tokens * layout.query_width / layout.setting.model.head_dim
        inner = 4.0 if program.elementwise == "eager" else 3.0
        feed_forward = token * layout.ff_width * (inner if layout.setting.model.mlp == "gated" else 2.0)
        kept = 4.0 * self._stream + attention + statistics + feed_forward
        return kept + self._scores if program.attention == "unfused" and not program.recompute_scores else kept

    @cached_property
    def _scores(self) -> Floats:
        """Softmax's output, the weights after dropout and its mask: 5 bytes a score."""
        heads = self.layout.query_width / self.layout.setting.model.head_dim
        return 5.0 * self.layout.tokens * self.layout.local_length * heads

    @cached_property
    def saved_activations(self) -> Floats:
        """What lives from the forward to the backward pass: everything, or each layer's input and what is kept by name."""
        layout = self.layout
        sizes = kept_bytes(layout) | {LAYER_IN: self._stream}
        sizes["attention_out"] = self._stream * layout.saves("attention_out")
        everything = np.logical_and.reduce([layout.saves(name) for name in sizes if name != LAYER_IN])
        kept = sum(sizes.values(), start=np.zeros(len(layout.table)))
        return layout.setting.model.layers * np.where(everything, self.layer_activations, kept)

    @cached_property
    def _gathered_layer(self) -> Floats:
        """Two layers' weights gathered, the one in hand and the next; the tables once."""
        layout = self.layout
        size = layout.gather_bytes * layout.setting.model.layer_matrix_parameters / layout.tensor
        return np.where(layout.weight_shards > 1, 2.0 * size, 0.0)

    @cached_property
    def _ring(self) -> Floats:
        """A ring's buffers: keys and values in hand and in flight, their fp32 gradients likewise, and the queries'."""
        layout = self.layout
        pair = 2.0 * layout.tokens * layout.kv_width
        held = 2.0 * (layout.activation_bytes + FP32_BYTES) * pair + FP32_BYTES * layout.tokens * layout.query_width
        return np.where(layout.rings, held, 0.0)

    def phases(self) -> dict[str, dict[str, Floats]]:
        """What the two moments hold beyond the persistent state."""
        layout = self.layout
        per_logit = FUSED_LOGIT_BYTES if layout.setting.program.fused_loss else LOGIT_BYTES
        logits = per_logit * layout.loss_chunk * layout.vocab_width
        return {
            "loss": {"saved_activations": self.saved_activations, "logits_loss": logits, "working_set": 2.0 * self._stream},
            "stream_backward": {
                "saved_activations": self.saved_activations,
                "working_set": 1.5 * self.layer_activations,
                "kv_ring": self._ring,
                "gathered_weights": self._gathered_layer,
            },
        }

    def parts(self) -> tuple[dict[str, Floats], Floats, NDArray[np.int8]]:
        """Bytes by ``MEMORY_PARTS``, their sum, and which of ``PHASES`` binds."""
        held = self.phases()
        sums = {name: sum(parts.values(), start=np.zeros(len(self.layout.table))) for name, parts in held.items()}
        first = sums["loss"] >= sums["stream_backward"]
        parts: dict[str, Floats] = {name: np.zeros(len(self.layout.table)) for name in MEMORY_PARTS}
        for name in MEMORY_PARTS:
            zero = np.zeros(len(self.layout.table))
            parts[name] = np.where(first, held["loss"].get(name, zero), held["stream_backward"].get(name, zero))
        batch = 16.0 * self.layout.tokens
        parts |= {"params": self.params, "optimizer": self.optimizer, "grads": self.grads, "batch": batch}
        total = sum(parts.values(), start=np.zeros(len(self.layout.table)))
        codes = np.where(first, PHASES.index("loss"), PHASES.index("stream_backward")).astype(np.int8)
        return parts, total, codes
