"""What one device holds and moves of a mixture of experts: rows, buffers, matrices; columns that the other laws read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cost_models.inputs.layout import Bools, Floats, Layout
from cost_models.inputs.table import CODES
from lcplan.spec.experts import Experts
from lcplan.strategy import MoeDispatch

BLOCK_ROWS = 1024.0
"""Rows of one block of the block loop (strategies/moe/capacity_rows.py), which there are spare at the end of its arrays."""

TILE_ROWS = 512.0
"""Rows of a tile of a TPU's grouped product (MaxText's ``tile_batch_seq``). A tile that holds rows of two experts is multiplied
once for each, masked (github jax-ml/jax, experimental/pallas/ops/tpu/megablox/gmm.py, ``make_group_metadata``)."""

IMBALANCE = 1.2
"""Rows of the busiest expert rank over the mean. An assumption, not a measurement: routers are trained towards 1, and we know
no published figure of a trained model's ranks. Rows beyond ``moe_capacity_percent`` are dropped, so that is its bound."""


@dataclass(frozen=True)
class ExpertLayout:
    """Rows and sizes of each candidate; columns of shape ``[n]``. U tokens of a context rank, k and E of the model, e ranks."""

    layout: Layout

    @property
    def experts(self) -> Experts:
        """The model's."""
        experts = self.layout.setting.model.routed
        assert experts is not None, "laws of experts are for layers that have some"
        return experts

    def dispatches(self, name: MoeDispatch) -> Bools:
        """Rows of the table that dispatch so."""
        return self.layout.table.moe_dispatch == CODES["moe_dispatch"].index(name)

    @cached_property
    def own(self) -> Floats:
        """Experts of one rank: E / e."""
        return self.experts.count / self.layout.expert

    @cached_property
    def assigned(self) -> Floats:
        """Rows that a rank's tokens send, and that it receives of a balanced load: U k."""
        return self.layout.tokens * self.experts.active

    @cached_property
    def _percent(self) -> Floats:
        return self.layout.table.moe_capacity_percent.astype(np.float64)

    @property
    def _received(self) -> Floats:
        """Rows that a rank has room for."""
        return self.layout.once("received rows", self._rows_received)

    def _rows_received(self) -> Floats:
        worst = self.layout.expert * self.layout.tokens * np.minimum(self.experts.active, self.own)
        asked = np.minimum(worst, np.ceil(self.assigned * self._percent / 100.0))
        room = np.where(self._percent > 0, asked, worst)
        return np.where(self.layout.expert > 1, room, self.assigned)

    @cached_property
    def pair_rows(self) -> Floats:
        """Rows for each pair of ranks, where the all-to-all is even."""
        worst = self.layout.tokens * np.minimum(self.experts.active, self.own)
        return np.minimum(worst, np.ceil(self._received / self.layout.expert))

    @cached_property
    def expert_rows(self) -> Floats:
        """``capacity``: rows that one rank sends to one expert."""
        asked = np.ceil(self.assigned * self._percent / (100.0 * self.experts.count))
        return np.where(self._percent > 0, np.minimum(self.layout.tokens, asked), self.layout.tokens)

    @property
    def ragged(self) -> bool:
        """Whether the backend has a ragged all-to-all."""
        return self.layout.setting.hardware.kind != "cpu"

    @property
    def blocks(self) -> bool:
        """Whether products run by the block loop; TPU has a ragged product."""
        return self.layout.setting.hardware.kind != "tpu"

    @property
    def room(self) -> Floats:
        """R: rows of the arrays that hold what came, spare rows apart."""
        return self.layout.once("expert room", self._room)

    def _room(self) -> Floats:
        dropless = (
            self._received
            if self.ragged
            else np.where(self.layout.expert > 1, self.layout.expert * self.pair_rows, self.assigned)
        )
        other = np.where(self.dispatches("capacity"), self.experts.count * self.expert_rows, self._received)
        return np.where(self.dispatches("dropless"), dropless, other)

    @cached_property
    def rows(self) -> Floats:
        """Rows of these arrays with the spare ones of the block loop."""
        spare = np.where(self.dispatches("capacity") | (not self.blocks), 0.0, np.minimum(BLOCK_ROWS, self._received))
        return self.room + spare

    @cached_property
    def busiest(self) -> Floats:
        """Rows that the busiest rank multiplies; a capacity multiplies what it has room for, used or not."""
        spread = np.where(self.layout.expert > 1, IMBALANCE, 1.0) * self.assigned
        return np.where(self.dispatches("capacity"), self.room, np.minimum(spread, self.room))

    @cached_property
    def multiplied(self) -> Floats:
        """``busiest`` as kernels run it: every expert's last block is half full on average; on TPU a tile is begun again for
        every expert but the first."""
        half = self.own * BLOCK_ROWS / 2.0 if self.blocks else (self.own - 1.0) * TILE_ROWS
        return self.busiest + np.where(self.dispatches("capacity"), 0.0, half)

    @cached_property
    def matrices(self) -> Floats:
        """Elements of one rank's experts in one layer, gathered over fsdp x context: ``3 D F E / (e t)``."""
        model = self.layout.setting.model
        return self.own * model.expert_matrix_parameters / self.layout.tensor

    @cached_property
    def width(self) -> Floats:
        """Features of an expert on one device: F / t."""
        return self.experts.d_ff / self.layout.tensor

    @property
    def router(self) -> float:
        """Elements of the router, whole on every device once gathered: D E."""
        return float(self.layout.setting.model.router_parameters)
