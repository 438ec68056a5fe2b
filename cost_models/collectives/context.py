"""Collectives over the context axis, by scheme: they move keys and values to the queries, and return their gradients."""

from __future__ import annotations

import numpy as np

from cost_models.inputs.collective_term import Term, on
from cost_models.inputs.layout import Layout
from cost_models.inputs.stages import Stages, layer_passes
from cost_models.masks.windows import Halo
from cost_models.schemes import SCHEME_COSTS
from cost_models.schemes.interface import CONTEXT


def context_terms(layout: Layout) -> list[Term]:
    """Return the collectives over context: those of each cost model in ``cost_models.schemes``, then documents and halos.

    Parameters
    ----------
    layout : Layout
        Candidates, with layers of one kind.

    Returns
    -------
    list of Term
        Bytes [bytes per call] and calls [per step].

    Notes
    -----
    Source: docs/step.md, table of collectives.
    """
    schemes = [term for cost in SCHEME_COSTS for term in cost.terms(layout)]
    return [*schemes, *_documents(layout), *_halo(layout)]


def _documents(layout: Layout) -> list[Term]:
    """Return the all-gather of document ids of whole sequences, int32, once per microbatch; with stages in every pass."""
    if layout.setting.workload.document_len is None or layout.outside is None:
        return []
    calls = on(CONTEXT, Stages(layout).document_gathers, layout=layout)
    return [Term("all-gather", CONTEXT, "documents", 4.0 * layout.tokens * layout.context, calls, "exposed")]


def _halo(layout: Layout) -> list[Term]:
    """Return the permutes of windowed layers: keys and values of earlier chunks, forward and again, and their gradients.

    They carry the heads that a rank has in attention, which are fewer after an exchange.
    """
    if layout.window is None:
        return []
    layers = layer_passes(layout)
    halo = Halo(layout)
    token = layout.activation_bytes * 2 * layout.sequences * layout.kv_width * layout.kv_copies / layout.exchange
    whole, last = np.maximum(halo.hops - 1.0, 0.0), (1.0 + halo.halves) * (halo.hops > 0)
    return [
        Term("collective-permute", CONTEXT, "kv-halo", token * halo.chunk, 3 * whole * layers, "exposed", "groups"),
        Term("collective-permute", CONTEXT, "kv-halo", token * halo.last, 3 * last * layers, "exposed", "groups"),
    ]
