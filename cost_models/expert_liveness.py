"""One layer's backward pass with a mixture of experts: what a device holds while its experts run backward."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cost_models.experts import ExpertLayout
from cost_models.layout import Floats
from cost_models.liveness import ATTENTION_OPERANDS, LayerBackward
from lcplan.strategy import MoeDispatch

ROWS_OF_PRODUCTS: dict[MoeDispatch, float] = {"dropless": 5.0, "gather": 4.5, "capacity": 3.5}
"""Buffers of rows of D where the gradients by gate and by up are added: what came, the two sums and the loop that adds to each,
and rows on their way. Read off compiled steps of Qwen3-30B-A3B for GB200 (tests/cost_models/data/compiled_steps.json)."""

WIDE = 6.0
"""Buffers of the experts' width where the gate runs backward: gate, up, their product, its cotangent, and those of the two."""


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
    def feed_forward(self) -> Floats:
        """Where the gradient of ``down`` is made and the gate runs backward: rows, and their results' cotangents."""
        operands = 2.0 * self.came + WIDE * self.wide
        return operands + self._gathered + self._shards + (ATTENTION_OPERANDS - 1.0) * self.queries

    @cached_property
    def stream_products(self) -> Floats:
        """Where the gradients by gate and by up are added."""
        buffers = sum(count * self.part.dispatches(name) for name, count in ROWS_OF_PRODUCTS.items())
        operands = (buffers - self.layout.saves("dispatched")) * self.came + 2.0 * self.wide
        return operands + self._gathered + self._shards + (ATTENTION_OPERANDS - 1.0) * self.queries

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
