"""Collectives of a mixture of experts: matrices, dispatch and combine of rows, routing weights, counts."""

from __future__ import annotations

import numpy as np

from cost_models.experts.buffers import IMBALANCE, ExpertLayout
from cost_models.inputs.collective_term import Subgroup, Term, on
from cost_models.inputs.layout import Floats, Layout
from cost_models.inputs.stages import layer_passes
from lcplan.spec.collective import Op
from lcplan.strategy import AxisName, MoeDispatch

EXPERT: tuple[AxisName, ...] = ("expert",)
RANKS: Subgroup = "experts"
REPLICAS: Subgroup = "expert-replicas"

TPU_ROW_ELEMENTS = 128.0
"""Fewest elements per row of a ragged all-to-all on TPU: a row's single weight is padded to a vector register's width (read in
steps compiled for v5p, libtpu 0.0.41)."""


def expert_terms(layout: Layout) -> list[Term]:
    """Return all collectives of each layer's experts; an empty list for dense layers.

    Parameters
    ----------
    layout : Layout
        Candidates.

    Returns
    -------
    list of Term
        Bytes [bytes per call] and calls [per step], shape ``[n]`` each.

    Notes
    -----
    Source: docs/step.md, table of collectives of a mixture of experts.
    """
    if layout.setting.model.routed is None:
        return []
    part = ExpertLayout(layout)
    return [*_matrices(part), *_dropless(part), *_capacity(part), *_gathered(part)]


def _matrices(part: ExpertLayout) -> list[Term]:
    """Return the collectives of the experts' matrices and the router, each over the axes that shard it."""
    layout = part.layout
    passes = layer_passes(layout)
    gathers = 2.0 if layout.setting.program.weights_gathered == "each-pass" else 1.0
    inside: tuple[AxisName, ...] = tuple(axis for axis in layout.weight_axes if axis != "expert")
    terms = []
    everywhere: tuple[AxisName, ...] = (*layout.weight_axes, "tensor")
    for axes, elements, name, subgroup in (
        (inside, part.matrices, "expert-matrices", REPLICAS),
        (everywhere, np.full(len(layout.table), part.router), "router", None),
    ):
        calls = passes * (layout.expert_replicas > 1) if subgroup else on(axes, passes, layout=layout)
        terms.append(Term("all-gather", axes, name, layout.gather_bytes * elements, gathers * calls, "prefetch", subgroup))
        terms.append(Term("reduce-scatter", axes, name, layout.reduce_bytes * elements, calls, "behind-backward", subgroup))
    return terms


def _calls(part: ExpertLayout, name: MoeDispatch) -> tuple[Floats, Floats]:
    """Return the layer passes that dispatch by ``name``, and the dispatches of rows in each: forward, again, cotangents.

    Rows whose dispatched copies are kept are not sent again.
    """
    layout = part.layout
    passes = layer_passes(layout) * part.dispatches(name)
    return passes * (layout.expert_ranks > 1), np.where(layout.saves("dispatched"), 2.0, 3.0)


def _dropless(part: ExpertLayout) -> list[Term]:
    """Return the dispatch of rows and the combine of results and gradients; a ragged all-to-all moves only routed rows."""
    layout = part.layout
    calls, out = _calls(part, "dropless")
    counts = 4.0 * layout.expert_ranks * part.experts.count
    routed = np.where(layout.expert_ranks > 1, IMBALANCE, 1.0) * part.assigned
    if part.ragged:
        rows, moved = np.maximum(part.rows, part.assigned), np.minimum(routed, part.capacity)
    else:
        rows = moved = layout.expert_ranks * part.pair_rows
    op: Op = "ragged-all-to-all" if part.ragged else "all-to-all"
    weight = 4.0 * (TPU_ROW_ELEMENTS if layout.setting.hardware.kind == "tpu" else 1.0)
    row = layout.activation_bytes * layout.setting.model.d_model
    return [
        Term("all-gather", EXPERT, "expert-counts", counts, 2.0 * calls, "exposed", RANKS),
        Term(op, EXPERT, "expert-rows", row * rows, (out + 2.0) * calls, "exposed", RANKS, moved=row * moved),
        Term(op, EXPERT, "expert-row-weights", weight * rows, 3.0 * calls, "exposed", RANKS, moved=weight * moved),
    ]


def _capacity(part: ExpertLayout) -> list[Term]:
    calls, out = _calls(part, "capacity")
    rows = part.experts.count * part.expert_rows
    row = part.layout.activation_bytes * part.layout.setting.model.d_model
    return [
        Term("all-to-all", EXPERT, "expert-rows", row * rows, (out + 2.0) * calls, "exposed", RANKS),
        Term("all-to-all", EXPERT, "expert-row-weights", 4.0 * rows, 3.0 * calls, "exposed", RANKS),
    ]


def _gathered(part: ExpertLayout) -> list[Term]:
    layout = part.layout
    calls, out = _calls(part, "gather")
    rows = layout.activation_bytes * layout.setting.model.d_model * layout.expert_ranks * layout.routed_tokens
    small = 4.0 * layout.expert_ranks * part.assigned
    return [
        Term("all-gather", EXPERT, "expert-rows", rows, out * calls, "exposed", RANKS),
        Term("reduce-scatter", EXPERT, "expert-rows", rows, 2.0 * calls, "exposed", RANKS),
        Term("all-gather", EXPERT, "expert-choices", small, 4.0 * calls, "exposed", RANKS),
        Term("reduce-scatter", EXPERT, "expert-choices", small, calls, "exposed", RANKS),
    ]
