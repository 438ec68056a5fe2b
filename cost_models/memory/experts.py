"""One layer's backward pass with a mixture of experts: what a device holds while its experts run backward."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cost_models.experts.buffers import ExpertLayout
from cost_models.inputs.layout import Bools, Floats
from cost_models.memory.liveness import ATTENTION_OPERANDS, LayerBackward

EVEN_ROWS, EVEN_WIDE = 3.5, 6.0
"""Of batched products (dispatch ``capacity``), buffers of rows of D where the gradients by gate and by up are added, and of the
experts' width where the gate runs backward: their operands are turned to lie by expert. Fitted on two compiled steps for GB200
(tests/cost_models/data/compiled_steps.json)."""

SUMS = 3.0
"""Buffers of rows of D where the gradients by gate and by up are added: both, and their sum."""


@dataclass(frozen=True)
class ExpertBackward(LayerBackward):
    """``LayerBackward`` where rows that came to a rank take the place of a context rank's tokens."""

    @cached_property
    def part(self) -> ExpertLayout:
        """Rows and sizes."""
        return ExpertLayout(self.layout)

    @cached_property
    def wide(self) -> Floats:
        """A tensor of the experts' width: ``a R F / t``."""
        return self.layout.held_bytes * self.part.rows * self.layout.ff_width

    @cached_property
    def came(self) -> Floats:
        """Rows as they came to a rank, or a cotangent of them: ``a R D``."""
        return self.layout.held_bytes * self.part.rows * self.layout.setting.model.d_model

    @cached_property
    def _even(self) -> Bools:
        return self.part.dispatches("capacity")

    @cached_property
    def feed_forward(self) -> Floats:
        """Where the gradient of ``down`` is made: the rows that came, and their results' cotangents.

        Beside them are gate, up, what enters ``down`` and its cotangent; or, before the last of these, the cotangents in the
        order of their tokens, from which they were sent.
        """
        sent = self.layout.held_bytes * self.part.assigned * self.layout.setting.model.d_model
        wide = np.where(self._even, EVEN_WIDE * self.wide, 3.0 * self.wide + np.maximum(self.wide, sent))
        return 2.0 * self.came + wide + self._gathered + self._shards + (ATTENTION_OPERANDS - 1.0) * self.queries

    @cached_property
    def stream_products(self) -> Floats:
        """Where the gradients by gate and by up are added; the weights' own gradients are made before, and so the rows gone."""
        even = (EVEN_ROWS - self.layout.saves("dispatched")) * self.came + 2.0 * self.wide
        operands = np.where(self._even, even, SUMS * self.came)
        return operands + self._gathered + self._shards + (ATTENTION_OPERANDS - 1.0) * self.queries

    @cached_property
    def products_unreduced(self) -> Floats:
        """Those of the layer before, and all three of this layer's experts."""
        return self.unreduced + self.layout.reduce_bytes * 2.0 * self._fed * self._sharded

    @cached_property
    def _gathered(self) -> Floats:
        """Normed streams that products are repeated from; where tensor is above 1 the gathered cotangent too."""
        return self._normed * self.stream + np.where(self.layout.tensor > 1, self.stream, 0.0)

    @cached_property
    def _fed(self) -> Floats:
        """Elements of one of gate, up and down of all experts of a rank."""
        return self.part.matrices / 3.0

    @cached_property
    def _matrices(self) -> Floats:
        """Elements of all matrices of a layer once gathered: the router is whole on every tensor rank."""
        model = self.layout.setting.model
        dense = (sum(model.attention_products.values()) + model.shared_matrix_parameters) / self.layout.tensor
        return dense + model.latent_parameters + self.part.matrices + self.part.router
