"""Memory of one step on one device, by part, at the phase that needs most.

Total is what the executable itself needs: argument + output + temp - alias, the state donated. It is persistent state plus
the largest of the phases; a part is 0 where the binding phase does not hold it, so the parts add up to the total.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cost_models.layout import Floats, Layout
from lcplan.remat import NAMED_TENSORS

MEMORY_PARTS: tuple[str, ...] = (
    "params",
    "optimizer",
    "batch",
    "grads",
    "saved_activations",
    "working_set",
    "logits_loss",
    "kv_ring",
    "gathered_weights",
    "collective_buffers",
)

PHASES: tuple[str, ...] = ("loss", "layer_backward", "update")


@dataclass(frozen=True)
class StepMemory:
    """Memory parts of each candidate; every property is a column of shape ``[n]`` in bytes a device."""

    layout: Layout

    @cached_property
    def _elements(self) -> Floats:
        """Parameters on one device: matrices split over fsdp x context x tensor, vectors over nothing."""
        model = self.layout.setting.model
        vectors = model.layers * model.layer_vector_parameters + model.d_model
        return (model.parameters - vectors) / self.layout.state_shards + vectors

    @cached_property
    def params(self) -> Floats:
        """fp32 master parameters."""
        return 4.0 * self._elements

    @cached_property
    def optimizer(self) -> Floats:
        """AdamW's two moments."""
        return 2.0 * self.layout.moment_bytes * self._elements

    @cached_property
    def batch(self) -> Floats:
        """Token ids and targets, int32, of all microbatches."""
        return 8.0 * self.layout.tokens * self.layout.microbatches

    @cached_property
    def grads(self) -> Floats:
        """fp32 gradients of a device's shard; the sum over microbatches beside those of one."""
        return 4.0 * self._elements * np.where(self.layout.microbatches > 1, 2.0, 1.0)

    @cached_property
    def saved_activations(self) -> Floats:
        """Residual stream entering each layer, and what the remat policy keeps of each."""
        layout = self.layout
        size = layout.activation_bytes
        widths: dict[str, Floats] = {
            "query": size * layout.tokens * layout.query_width,
            "key": size * layout.tokens * layout.kv_width,
            "value": size * layout.tokens * layout.kv_width,
            "context": size * layout.tokens * layout.query_width,
            "lse": 4.0 * layout.tokens * layout.query_width / layout.setting.model.head_dim,
            "attention_out": size * layout.stream_tokens * layout.setting.model.d_model,
            "gate": size * layout.tokens * layout.ff_width,
            "up": size * layout.tokens * layout.ff_width,
        }
        kept = size * layout.stream_tokens * layout.setting.model.d_model
        for name in NAMED_TENSORS:
            kept = kept + widths[name] * layout.saves(name)
        return layout.setting.model.layers * kept

    @cached_property
    def _gathered_layer(self) -> Floats:
        model = self.layout.setting.model
        return model.layer_matrix_parameters / self.layout.tensor

    @cached_property
    def _attention_backward(self) -> Floats:
        """Query, output and their cotangents, keys and values, and the gathered stream of the layer."""
        layout = self.layout
        streams = 2.0 * layout.tokens * layout.setting.model.d_model
        return layout.activation_bytes * (streams + layout.tokens * (4.0 * layout.query_width + 2.0 * layout.kv_width))

    @cached_property
    def _ff_backward(self) -> Floats:
        """Gate, up, their product and the three cotangents, and the gathered stream twice."""
        layout = self.layout
        return layout.activation_bytes * layout.tokens * (2.0 * layout.setting.model.d_model + 5.0 * layout.ff_width)

    @cached_property
    def kv_ring(self) -> Floats:
        """Keys and values in hand and in flight, and their fp32 gradients, in hand and in flight."""
        layout = self.layout
        pair = 2.0 * layout.tokens * layout.kv_width
        return np.where(layout.rings, 2.0 * layout.activation_bytes * pair + 8.0 * pair, 0.0)

    @cached_property
    def logits_loss(self) -> Floats:
        """fp32 logits of a chunk and their cotangent, the gathered head and its gradient, the hidden states."""
        layout = self.layout
        model = layout.setting.model
        logits = 2.0 * 4.0 * layout.loss_chunk * layout.vocab_width
        head = (layout.gather_bytes + layout.reduce_bytes) * layout.vocab_width * model.d_model
        return logits + head + 2.0 * layout.activation_bytes * layout.stream_tokens * model.d_model

    def phases(self) -> dict[str, dict[str, Floats]]:
        """What each of ``PHASES`` holds beyond the persistent state."""
        layout = self.layout
        zero = np.zeros(len(layout.table))
        ring = self._attention_backward + self.kv_ring > self._ff_backward
        weights = (layout.gather_bytes + layout.reduce_bytes) * self._gathered_layer
        return {
            "loss": {"grads": self.grads, "saved_activations": self.saved_activations, "logits_loss": self.logits_loss},
            "layer_backward": {
                "grads": self.grads,
                "saved_activations": self.saved_activations,
                "working_set": np.where(ring, self._attention_backward, self._ff_backward),
                "kv_ring": np.where(ring, self.kv_ring, 0.0),
                "gathered_weights": weights,
            },
            "update": {"grads": self.grads, "working_set": zero},
        }

    def parts(self) -> tuple[dict[str, Floats], Floats, np.ndarray[tuple[int, ...], np.dtype[np.int8]]]:
        """Bytes by ``MEMORY_PARTS``, their sum, and which of ``PHASES`` binds."""
        held = self.phases()
        sums = [sum(parts.values(), start=np.zeros(len(self.layout.table))) for parts in held.values()]
        largest = np.maximum.reduce(sums)
        binding = np.zeros(len(self.layout.table), dtype=np.int8)
        parts = {"params": self.params, "optimizer": self.optimizer, "batch": self.batch}
        parts |= {name: np.zeros(len(self.layout.table)) for name in MEMORY_PARTS[3:]}
        for code in reversed(range(len(PHASES))):  # the first of equal phases stands
            binds = sums[code] == largest
            binding[binds] = code
            for name in MEMORY_PARTS[3:]:
                parts[name] = np.where(binds, held[PHASES[code]].get(name, 0.0), parts[name])
        total = self.params + self.optimizer + self.batch + largest
        return parts, total, binding
