"""Collectives over the pipe axis: messages between stages, and the rows and tables that stages share."""

from __future__ import annotations

import numpy as np

from cost_models.inputs.collective_term import Term, on
from cost_models.inputs.layout import Layout
from cost_models.inputs.stages import Stages
from lcplan.strategy import AxisName

FP32_BYTES = 4.0
PIPE: tuple[AxisName, ...] = ("pipe",)
TENSOR: tuple[AxisName, ...] = ("tensor",)


def pipeline_terms(layout: Layout) -> list[Term]:
    """Return the collectives of stages in lockstep, and those of embedding and vectors that a pipeline changes.

    A message carries a microbatch's residual stream in one direction, ``a ts D``, in every tick of the direction. The rows of a
    microbatch are gathered after the embedding and scattered before the loss, and backward the other way round. Both tables
    are gathered, and their gradients reduced, once a step in fp32.

    Parameters
    ----------
    layout : Layout
        Candidates.

    Returns
    -------
    list of Term
        Bytes [bytes per call] and calls [per step]; empty where no candidate has a pipeline.

    Notes
    -----
    Source: docs/step/pipeline.md.
    """
    stages = Stages(layout)
    if layout.outside is None or not stages.any:
        return []
    model, M = layout.setting.model, layout.microbatches
    stream = layout.activation_bytes * layout.stream_tokens * model.d_model
    table = FP32_BYTES * model.vocab * model.d_model / layout.state_shards
    tables, ticks = 1.0 if model.tied_embeddings else 2.0, 2.0 * (M * stages.chunks + stages.pipe - 1.0)
    rows = np.where(stages.pipe > 1, stream * layout.tensor / stages.pipe, 0.0)
    embedded = on(TENSOR, M * (stages.pipe > 1), layout=layout)
    return [
        Term("collective-permute", PIPE, "pipeline", stream, on(PIPE, ticks, layout=layout), "exposed"),
        Term("all-gather", PIPE, "pipeline-rows", stream, on(PIPE, 2.0 * M, layout=layout), "exposed"),
        Term("reduce-scatter", PIPE, "pipeline-rows", stream, on(PIPE, 2.0 * M, layout=layout), "exposed"),
        Term("all-gather", PIPE, "pipeline-tables", table, on(PIPE, tables, layout=layout), "exposed"),
        Term("reduce-scatter", PIPE, "pipeline-tables", table, on(PIPE, tables, layout=layout), "exposed"),
        Term("all-gather", TENSOR, "stream", rows, embedded, "exposed"),
        Term("reduce-scatter", TENSOR, "stream", rows, embedded, "exposed"),
    ]
