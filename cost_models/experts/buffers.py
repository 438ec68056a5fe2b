"""Sizes of a mixture of experts on one device: rows, buffers and matrices, as columns that other cost models read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cost_models.inputs.layout import Bools, Floats, Layout
from cost_models.inputs.table import CODES
from lcplan.spec.experts import Experts
from lcplan.strategy import MoeDispatch

BLOCK_ROWS = 1024.0
"""Rows of one block of the block loop (strategies/moe/capacity_rows.py); its arrays end with as many spare rows."""

TILE_ROWS = 512.0
"""Rows of a tile of a TPU's grouped product (MaxText's ``tile_batch_seq``). A tile with rows of two experts is multiplied once
for each, with a mask (github jax-ml/jax, experimental/pallas/ops/tpu/megablox/gmm.py, ``make_group_metadata``)."""

IMBALANCE = 1.2
"""Rows of the busiest expert rank over the mean. This is an assumption, not a measurement: routers are trained towards 1, and
no figure is published for the ranks of a trained model. ``moe_capacity_percent`` bounds it, since further rows are dropped."""


@dataclass(frozen=True)
class ExpertLayout:
    """Rows and sizes of a mixture of experts for each candidate; columns of shape ``[n]``.

    Symbols: ``U`` tokens that a rank routes, ``k`` active experts of a token, ``E`` experts, ``e`` ranks that share them,
    ``R`` rows of a rank's buffers, ``t`` ranks that split each expert.

    Source: docs/step.md, mixture of experts; strategies/moe.
    """

    layout: Layout

    @property
    def experts(self) -> Experts:
        """The experts of the model's routed layers."""
        experts = self.layout.setting.model.routed
        assert experts is not None, "the layers of this layout have no experts"
        return experts

    def dispatches(self, name: MoeDispatch) -> Bools:
        """Return the rows of the table whose dispatch is ``name``."""
        return self.layout.table.moe_dispatch == CODES["moe_dispatch"].index(name)

    @cached_property
    def own(self) -> Floats:
        """Experts of one rank: ``E / e`` [count]."""
        return self.experts.count / self.layout.expert_ranks

    @cached_property
    def assigned(self) -> Floats:
        """Rows that a rank sends, which equal the rows that it receives under a balanced load: ``U k`` [rows]."""
        return self.layout.routed_tokens * self.experts.active

    @cached_property
    def _percent(self) -> Floats:
        return self.layout.table.moe_capacity_percent.astype(np.float64)

    @property
    def _received(self) -> Floats:
        """Rows that fit in a rank's receive buffer."""
        return self.layout.once("received rows", self._rows_received)

    def _rows_received(self) -> Floats:
        worst = self.layout.expert_ranks * self.layout.routed_tokens * np.minimum(self.experts.active, self.own)
        asked = np.minimum(worst, np.ceil(self.assigned * self._percent / 100.0))
        capacity = np.where(self._percent > 0, asked, worst)
        return np.where(self.layout.expert_ranks > 1, capacity, self.assigned)

    @cached_property
    def pair_rows(self) -> Floats:
        """Rows for each pair of ranks in an all-to-all with equal shares [rows]."""
        worst = self.layout.routed_tokens * np.minimum(self.experts.active, self.own)
        return np.minimum(worst, np.ceil(self._received / self.layout.expert_ranks))

    @cached_property
    def expert_rows(self) -> Floats:
        """Rows that one rank sends to one expert under dispatch ``capacity`` [rows]."""
        asked = np.ceil(self.assigned * self._percent / (100.0 * self.experts.count))
        return np.where(self._percent > 0, np.minimum(self.layout.routed_tokens, asked), self.layout.routed_tokens)

    @property
    def ragged(self) -> bool:
        """Whether the backend has a ragged all-to-all."""
        return self.layout.setting.hardware.kind != "cpu"

    @property
    def blocks(self) -> bool:
        """Whether products use the block loop; a TPU has a ragged product."""
        return self.layout.setting.hardware.kind != "tpu"

    @property
    def capacity(self) -> Floats:
        """Rows that a rank's buffers can receive: ``R`` [rows]."""
        return self.layout.once("expert capacity", self._capacity)

    def _capacity(self) -> Floats:
        dropless = (
            self._received
            if self.ragged
            else np.where(self.layout.expert_ranks > 1, self.layout.expert_ranks * self.pair_rows, self.assigned)
        )
        other = np.where(self.dispatches("capacity"), self.experts.count * self.expert_rows, self._received)
        return np.where(self.dispatches("dropless"), dropless, other)

    @cached_property
    def rows(self) -> Floats:
        """Rows of a rank's buffers, including spare rows of the block loop [rows]."""
        spare = np.where(self.dispatches("capacity") | (not self.blocks), 0.0, np.minimum(BLOCK_ROWS, self._received))
        return self.capacity + spare

    @cached_property
    def busiest(self) -> Floats:
        """Rows that the busiest rank multiplies; dispatch ``capacity`` multiplies the whole buffer, even empty rows [rows]."""
        spread = np.where(self.layout.expert_ranks > 1, IMBALANCE, 1.0) * self.assigned
        return np.where(self.dispatches("capacity"), self.capacity, np.minimum(spread, self.capacity))

    @cached_property
    def multiplied(self) -> Floats:
        """Rows that the kernels of the busiest rank multiply [rows].

        The last block of every expert is half full on average. On a TPU every expert except the first adds one tile.
        """
        half = self.own * BLOCK_ROWS / 2.0 if self.blocks else (self.own - 1.0) * TILE_ROWS
        return self.busiest + np.where(self.dispatches("capacity"), 0.0, half)

    @cached_property
    def matrices(self) -> Floats:
        """Elements of one rank's experts in one layer, gathered over fsdp and context: ``3 D F E / (e t)`` [elements]."""
        model = self.layout.setting.model
        return self.own * model.expert_matrix_parameters / self.layout.expert_tensor

    @cached_property
    def width(self) -> Floats:
        """Features of an expert on one device: ``F / t`` [features]."""
        return self.experts.d_ff / self.layout.expert_tensor

    @property
    def router(self) -> float:
        """Elements of the router, which every device gathers whole: ``D E`` [elements]."""
        return float(self.layout.setting.model.router_parameters)
