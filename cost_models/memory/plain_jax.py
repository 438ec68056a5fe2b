"""Memory on one device of a train step that JAX differentiates without custom derivatives: a scan, and a loss in chunks.

Such a step does not control its buffers. They were read off XLA's buffer assignment for an H100 (jax 0.10.1, deviceless; two
and four layers of Llama 3 8B). The peak is in the loss's backward pass, where the layers' gradients already exist as zeros.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from cost_models.inputs.layout import Bools, Floats
from cost_models.memory.parts import StepMemory
from cost_models.rates.published import Rate
from lcplan.strategy.remat import LAYER_IN, NAMED_TENSORS

FP32_BYTES = 4.0

LOGIT_BUFFERS = 2.0
"""fp32 logits of a chunk, and their cotangent."""

HEAD_COPIES = 3.0
"""Copies of the head in the activations' dtype: its cast, another for a product whose autotuned kernel does not cast its input,
and a chunk's gradient before it is added in fp32."""

STREAMS = 3.0
"""The last layer's output, its normed copy, its cotangent."""

WIDE_RESIDUALS, STREAM_RESIDUALS, QUERY_RESIDUALS, PAIR_RESIDUALS, FP32_STREAMS = 6.0, 2.0, 3.0, 2.0, 4.0
"""Residuals that a layer without rematerialisation keeps for its backward pass: 6 of width F (gate, its sigmoid and products);
both normed streams; queries, attention's output and its copy as an operand; keys and values; in fp32 two streams per norm."""

DEVICE_WORKSPACE = Rate(
    0.48e9,
    measured=True,
    source="lcplan's own measurement: allocator peak of six train steps on one H100, jax 0.11.2, beyond their deviceless"
    " compile (jax 0.10.1) and one cast of the head; midway between the extremes",
)
"""Workspaces of autotuned products, which a deviceless compile does not choose [bytes]."""


def device_gap_bytes(vocab: int, d_model: int) -> float:
    """Return the extra memory of an executable compiled on its device over a deviceless compile of the one-device program.

    ``2 V D + w``: a bf16 copy of an fp32 head, and workspaces. A deviceless compile fuses the cast of the head into the product
    that reads it, while the kernels that autotuning picks on the device need the copy in memory.

    Parameters
    ----------
    vocab : int
        V, rows of the head [count].
    d_model : int
        D, its columns [count].

    Returns
    -------
    float
        Gap [bytes].

    Notes
    -----
    The gap applies to a step that casts fp32 weights in its products. A step that gathers bf16 weights has them in both
    compiles.
    Source: ``DEVICE_WORKSPACE``; with the gap, six steps are within 1.5 % of the allocator's peak.

    Examples
    --------
    >>> device_gap_bytes(128256, 4096) / 1e9
    1.530673152
    """
    return 2.0 * vocab * d_model + DEVICE_WORKSPACE.value


class PlainMemory(StepMemory):
    """Memory parts of a step whose derivative is JAX's own; columns of shape ``[n]`` in bytes per device.

    Source: memory analyses of plain JAX steps on one device (jax 0.10.1).
    """

    @cached_property
    def _everything(self) -> Bools:
        """Rows that rematerialise nothing."""
        return np.logical_and.reduce([self.layout.saves(name) for name in NAMED_TENSORS if name != LAYER_IN])

    @cached_property
    def saved_activations(self) -> Floats:
        """Tensors that live from the forward to the backward pass [bytes per device].

        They are each layer's input and the tensors kept by name. Without rematerialisation they are all tensors that JAX's
        derivative reads again, including cast weights.
        """
        layout = self.layout
        model = layout.setting.model
        features = WIDE_RESIDUALS * layout.ff_width + QUERY_RESIDUALS * layout.query_width + PAIR_RESIDUALS * layout.kv_width
        features = features + STREAM_RESIDUALS * model.d_model
        token = layout.activation_bytes * features + FP32_BYTES * FP32_STREAMS * model.d_model
        layer = layout.tokens * token + layout.activation_bytes * model.layer_matrix_parameters
        return np.where(self._everything, model.layers * layer, super().saved_activations)

    def _outside(self) -> dict[str, dict[str, Floats]]:
        """Return the moments of the loss and the update; with rematerialisation the layers' gradients exist early as zeros."""
        layout = self.layout
        model = layout.setting.model
        head = layout.vocab_width * model.d_model
        stream = layout.activation_bytes * layout.tokens * model.d_model
        logits = LOGIT_BUFFERS * FP32_BYTES * layout.loss_chunk * layout.vocab_width
        gradient = layout.state.gradient
        early = np.where(self._everything, 0.0, gradient * self._layer_elements)
        return {
            "loss": {
                "grads": self._summed + early + gradient * head,
                "saved_activations": self.saved_activations,
                "working_set": STREAMS * stream,
                "logits_loss": logits + HEAD_COPIES * layout.activation_bytes * head,
            },
            "update": {"grads": layout.state.last_gradient * self._elements},
        }
