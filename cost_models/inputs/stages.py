"""How the stages of the pipelined step share layers and microbatches (strategies/pipeline)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cost_models.inputs.layout import Bools, Floats, Layout
from cost_models.inputs.table import CODES, StrategyTable
from lcplan.spec.model import ModelSpec
from lcplan.strategy import LATE_SCHEDULES


@dataclass(frozen=True)
class Stages:
    """How a pipeline's stages share layers and microbatches; columns of shape ``[n]``.

    Source: strategies/pipeline; docs/step/pipeline.md.
    """

    layout: Layout

    @property
    def any(self) -> bool:
        """Whether any candidate has a pipeline."""
        return bool((self.layout.table.pipe > 1).any())

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
        codes = [CODES["schedule"].index(name) for name in LATE_SCHEDULES]
        return np.isin(self.layout.table.schedule, codes)

    @cached_property
    def chunk_layers(self) -> Floats:
        """Layers of a chunk, the same on every stage: ``ceil(L / (P v))`` [count].

        A model whose layers differ in kind has whole periods of them.
        """
        model = self._model
        period = len(model.layer_runs[0].period)
        return period * np.ceil(model.layers / period / (self.pipe * self.chunks))

    @cached_property
    def padded(self) -> Floats:
        """Layers of all stages, the empty ones included, over those of the model: ``P v ceil(L / (P v)) / L`` [ratio]."""
        return self.pipe * self.chunks * self.chunk_layers / self._model.layers

    @property
    def document_gathers(self) -> Floats:
        """Gathers of document ids: ``M``, with stages ``2 (M v + P - 1)``, one in each pass of a chunk [count]."""
        ticks = 2.0 * (self.layout.microbatches * self.chunks + self.pipe - 1.0)
        return np.where(self.pipe > 1, ticks, self.layout.microbatches)

    @property
    def share(self) -> Floats:
        """Layers of a stage, the empty ones included, over those of the model: 1 without a pipeline [ratio]."""
        return np.where(self.pipe > 1, self.padded / self.pipe, 1.0)

    @property
    def _model(self) -> ModelSpec:
        """The whole model, where the layout covers one kind of its layers."""
        whole = self.layout if self.layout.whole is None else self.layout.whole
        return whole.setting.model

    @cached_property
    def idle(self) -> Floats:
        """Share of a stage's ticks in one direction without a microbatch: ``(P - 1) / (M v + P - 1)`` [ratio]."""
        return (self.pipe - 1.0) / (self.layout.microbatches * self.chunks + self.pipe - 1.0)

    @cached_property
    def layer_passes(self) -> Floats:
        """Passes of a device through a layer of this kind in one direction, with those of idle ticks [count].

        ``L M`` without a pipeline; with stages ``ceil(L / (P v)) (M v + P - 1)``.
        """
        every = self.layout.setting.model.layers * self.layout.microbatches
        if not self.any:
            return every
        return every * self.share / (1.0 - self.idle)

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
        return np.where(self.pipe > 1, self.slots * self.chunk_layers / self._model.layers, 1.0)

    @cached_property
    def outputs(self) -> Floats:
        """Outputs of the last stage that wait for their loss: 1, or ``M`` where backward passes are late [count]."""
        return np.where(self.late, self.layout.microbatches, 1.0)

    @cached_property
    def dealt(self) -> Layout:
        """The layout of embedding and loss: a stage has 1/P of a microbatch's tokens."""
        if not self.any:
            return self.layout
        table = self.layout.table
        columns = {name: getattr(table, name) for name in table.__dataclass_fields__}
        parts = StrategyTable(**columns | {"microbatches": table.microbatches * table.pipe})
        return replace(self.layout, table=parts)


def layer_passes(layout: Layout) -> Floats:
    """Return the passes of a device through a layer of the layout's kind in one direction.

    ``L M`` without a pipeline; with stages in lockstep ``ceil(L / (P v)) (M v + P - 1)``, those of idle ticks included.

    Parameters
    ----------
    layout : Layout
        Candidates.

    Returns
    -------
    ndarray, shape [n]
        Passes [count per step].

    Notes
    -----
    Source: docs/step/pipeline.md.
    """
    return Stages(layout).layer_passes


def dealt(layout: Layout) -> Layout:
    """Return the layout of embedding and loss: with stages each has 1/P of a microbatch's tokens.

    Parameters
    ----------
    layout : Layout
        Candidates.

    Returns
    -------
    Layout
        The same candidates with P times as many microbatches; tokens [tokens per microbatch].

    Notes
    -----
    Source: docs/step/pipeline.md.
    """
    return Stages(layout).dealt
