"""Memory of one layer's backward pass with a mixture of experts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cost_models.experts.buffers import ExpertLayout
from cost_models.inputs.layout import Bools, Floats
from cost_models.memory.liveness import LayerBackward

EVEN_ROWS, EVEN_WIDE = 3.5, 6.0
"""Buffers of batched products (dispatch ``capacity``), whose operands are transposed so that rows are ordered by expert.

The first counts buffers of rows of D where the gradients through gate and up are added. The second counts buffers of the
experts' width where the gate runs backward. Both were fitted on two compiled steps for GB200
(tests/cost_models/data/compiled_steps.json).
"""

SUMS = 3.0
"""Buffers of rows of D where the gradients through gate and up are added: both, and their sum."""


@dataclass(frozen=True)
class ExpertBackward(LayerBackward):
    """``LayerBackward`` for experts: the rows that a rank received take the place of a context rank's tokens.

    Source: buffer assignments of compiled steps (jax 0.10.1, GPU targets); strategies/moe.
    """

    @cached_property
    def part(self) -> ExpertLayout:
        """Rows and sizes of the experts."""
        return ExpertLayout(self.layout)

    @cached_property
    def wide(self) -> Floats:
        """A tensor of the experts' width: ``a R F / t`` [bytes per device]."""
        return self.layout.held_bytes * self.part.rows * self.part.width

    @cached_property
    def received(self) -> Floats:
        """The rows that a rank received, or their cotangent: ``a R D`` [bytes per device]."""
        return self.layout.held_bytes * self.part.rows * self.layout.setting.model.d_model

    @cached_property
    def _even(self) -> Bools:
        return self.part.dispatches("capacity")

    @cached_property
    def feed_forward(self) -> Floats:
        """Working set where the gradient of ``down`` is computed [bytes per device].

        It holds the received rows, the cotangents of their results, gate, up, the input of ``down`` and its cotangent. Before
        the last of these exists, the cotangents also exist in the order of their tokens.
        """
        sent = self.layout.held_bytes * self.part.assigned * self.layout.setting.model.d_model
        wide = np.where(self._even, EVEN_WIDE * self.wide, 3.0 * self.wide + np.maximum(self.wide, sent))
        return 2.0 * self.received + wide + self._gathered + self._shards + self.waiting_attention

    @cached_property
    def stream_products(self) -> Floats:
        """Working set where the gradients through gate and up are added [bytes per device].

        The weights' gradients are computed earlier, so the received rows are free by then.
        """
        even = (EVEN_ROWS - self.layout.saves("dispatched")) * self.received + 2.0 * self.wide
        operands = np.where(self._even, even, SUMS * self.received)
        return operands + self._gathered + self._shards + self.waiting_attention

    @cached_property
    def products_unreduced(self) -> Floats:
        """Unreduced gradients of the previous layer and of all three matrices of this layer's experts [bytes per device]."""
        return self.unreduced + self.layout.reduce_bytes * 2.0 * self._fed * self._sharded

    @cached_property
    def _gathered(self) -> Floats:
        """Normed streams from which products are recomputed, and, where tensor exceeds 1, the gathered cotangent."""
        return self._normed * self.stream + np.where(self.layout.tensor > 1, self.stream, 0.0)

    @cached_property
    def _fed(self) -> Floats:
        """Elements of one of the matrices gate, up and down, over all experts of a rank."""
        return self.part.matrices / 3.0

    @cached_property
    def _matrices(self) -> Floats:
        """Elements of all matrices of a layer once gathered: the router is whole on every tensor rank."""
        model = self.layout.setting.model
        dense = (sum(model.attention_products.values()) + model.shared_matrix_parameters) / self.layout.tensor
        return dense + model.latent_parameters + self.part.matrices + self.part.router
