"""How the stages of the pipelined step share layers and microbatches (strategies/pipeline)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cost_models.inputs.layout import Bools, Floats, Layout
from cost_models.inputs.table import CODES, StrategyTable

LATE_SCHEDULES = ("gpipe", "circular")
"""Schedules in which backward passes begin after all forward passes (``strategies.pipeline.ticks``)."""


@dataclass(frozen=True)
class Stages:
    """How a pipeline's stages share layers and microbatches; columns of shape ``[n]``."""

    layout: Layout

    @cached_property
    def pipe(self) -> Floats:
        """Ranks of the axis: ``P`` [count]."""
        return self.layout.table.pipe.astype(np.float64)

    @cached_property
    def chunks(self) -> Floats:
        """Chunks of a stage: ``v`` [count]."""
        return self.layout.table.virtual_stages.astype(np.float64)

    @cached_property
    def late(self) -> Bools:
        """Rows whose backward passes begin after all forward passes."""
        codes = [CODES["schedule"].index(name) for name in LATE_SCHEDULES if name in CODES["schedule"]]
        return np.isin(self.layout.table.schedule, codes)

    @cached_property
    def chunk_layers(self) -> Floats:
        """Layers of a chunk, the same on every stage: ``ceil(L / (P v))`` [count].

        A model whose layers differ in kind has whole periods of them.
        """
        model = self.layout.setting.model
        period = len(model.layer_runs[0].period)
        return period * np.ceil(model.layers / period / (self.pipe * self.chunks))

    @cached_property
    def padded(self) -> Floats:
        """Layers that all stages have room for, over those of the model: ``P v ceil(L / (P v)) / L`` [ratio]."""
        return self.pipe * self.chunks * self.chunk_layers / self.layout.setting.model.layers

    @cached_property
    def slots(self) -> Floats:
        """Chunks whose saved tensors the program has space for: ``min(M v + 1, v P + P - 1)`` [count].

        With backward passes after all forward passes ``M v + 1``: one is a place where an idle stage may write.
        """
        passes = self.layout.microbatches * self.chunks
        return np.where(self.late, passes + 1.0, np.minimum(passes + 1.0, self.chunks * self.pipe + self.pipe - 1.0))

    @cached_property
    def held_share(self) -> Floats:
        """Layers whose saved tensors a device has space for, over all layers: 1 without a pipeline [ratio]."""
        return np.where(self.pipe > 1, self.slots * self.chunk_layers / self.layout.setting.model.layers, 1.0)

    @cached_property
    def outputs(self) -> Floats:
        """Outputs of the last stage that wait for their loss: 1, or ``M`` where backward passes are late [count]."""
        return np.where(self.late, self.layout.microbatches, 1.0)

    @cached_property
    def dealt(self) -> Layout:
        """The layout of embedding and loss: a stage has 1/P of a microbatch's tokens."""
        table = self.layout.table
        columns = {name: getattr(table, name) for name in table.__dataclass_fields__}
        parts = StrategyTable(**columns | {"microbatches": table.microbatches * table.pipe})
        return replace(self.layout, table=parts)
