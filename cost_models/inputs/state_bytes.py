"""Bytes that a step keeps for each parameter: weights that the optimizer updates, its moments, and gradients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from cost_models.inputs.table import CODES, Codes
from lcplan.strategy.state_knobs import BLOCK, MOMENTS

if TYPE_CHECKING:
    from cost_models.inputs.layout import Bools, Floats, Layout

SCALE_BYTES = 4.0 / BLOCK
"""One fp32 scale of each block, per element [bytes]."""
MASTER_BYTES = {"fp32": 4.0, "bf16": 2.0, "none": 2.0}
MOMENT_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp8": 1.0 + SCALE_BYTES, "int8": 1.0 + SCALE_BYTES}
COPY_BYTES = 2.0
"""Size of an element of a copy of the weights in bf16 [bytes]."""

FACTORED = 128
"""Least second side of a matrix of which Adafactor keeps sums only (optax.adafactor, ``min_dim_size_to_factor``)."""


def _column(name: str, sizes: dict[str, float], codes: Codes) -> Floats:
    return np.array([sizes[str(value)] for value in CODES[name]])[codes]


@dataclass(frozen=True)
class StateBytes:
    """Bytes of the state per element of a matrix; columns of shape ``[n]`` in bytes per element.

    Source: docs/step/state.md; arXiv:2110.02861 for blocks with a scale.
    """

    layout: Layout

    @cached_property
    def rounded(self) -> Bools:
        """Rows whose weights exist in bf16 only, so that every update is rounded."""
        return np.asarray(self.layout.table.master_dtype != CODES["master_dtype"].index("fp32"))

    @cached_property
    def master(self) -> Floats:
        """Weights that the optimizer updates: 4 in fp32, 2 in bf16 and where there are no others [bytes per element]."""
        return _column("master_dtype", MASTER_BYTES, self.layout.table.master_dtype)

    @cached_property
    def moment(self) -> Floats:
        """One moment: 4, 2, or 1 with its share of a block's scale [bytes per element]."""
        stated = _column("moments_dtype", MOMENT_BYTES, self.layout.table.moments_dtype)
        blocks = self.layout.table.optimizer == CODES["optimizer"].index("adamw-8bit")
        return np.where(blocks, MOMENT_BYTES["int8"], stated)

    @cached_property
    def moments(self) -> Floats:
        """All moments together, as a mean over the model's elements [bytes per element].

        Muon keeps two of the embedding and the head; Adafactor sums over a head's features, and of the feed-forward too little
        to count.
        """
        model, table = self.layout.setting.model, self.layout.table
        count = _column("optimizer", dict(MOMENTS), table.optimizer)
        tables = model.vocab * model.d_model * (1.0 if model.tied_embeddings else 2.0) / model.parameters
        count = count + tables * (table.optimizer == CODES["optimizer"].index("muon"))
        second = max(model.heads, model.head_dim, model.layers)
        rows = 1.0 / model.head_dim if second >= FACTORED else 1.0
        attention = model.layers * model.attention_matrix_parameters * rows / model.parameters
        sums = 4.0 * attention * (table.optimizer == CODES["optimizer"].index("adafactor"))
        return count * self.moment + sums

    @cached_property
    def gradient(self) -> Floats:
        """A microbatch's gradient, which has the dtype of the weights that are differentiated [bytes per element]."""
        return np.where(self.rounded | self._halves, 2.0, 4.0)

    @cached_property
    def sums(self) -> Floats:
        """A gradient in which microbatches add up [bytes per element]."""
        return np.where(self._halves, 2.0, 4.0)

    @cached_property
    def copies(self) -> Floats:
        """A bf16 copy of fp32 weights that is differentiated in their place, so that gradients are bf16 [bytes per element]."""
        return np.where(self._halves & ~self.rounded, COPY_BYTES, 0.0)

    @cached_property
    def last_gradient(self) -> Floats:
        """Gradients that the update reads: those of the only microbatch, or the sums [bytes per element]."""
        found: Floats = np.where(self.layout.microbatches > 1, self.sums, self.gradient)
        return found

    @cached_property
    def update_traffic(self) -> Floats:
        """Traffic of the update: weights and moments are read and written, gradients read for their norm and again [bytes]."""
        return 2.0 * (self.master + self.last_gradient + self.moments)

    @cached_property
    def _halves(self) -> Bools:
        return np.asarray(self.layout.table.grad_dtype == CODES["grad_dtype"].index("bf16"))
