"""The context axis's collectives: keys and values to the queries, and their gradients back, by scheme."""

from __future__ import annotations

import numpy as np

from cost_models.inputs.collective_term import Term, on
from cost_models.inputs.layout import Layout
from cost_models.masks.windows import Halo
from cost_models.schemes import SCHEME_LAWS
from cost_models.schemes.interface import CONTEXT


def context_terms(layout: Layout) -> list[Term]:
    """Keys and values to the queries, and their gradients back: each law of ``cost_models.schemes``, then documents and halos.

    Parameters
    ----------
    layout : Layout
        Candidates; layers that are alike.

    Returns
    -------
    list of Term
        Bytes [bytes per call] and calls [per step].

    Notes
    -----
    Source: docs/step.md, table of collectives.
    """
    schemes = [term for law in SCHEME_LAWS for term in law.terms(layout)]
    return [*schemes, *_documents(layout), *_halo(layout)]


def _documents(layout: Layout) -> list[Term]:
    """Ids of the documents of whole sequences, int32, once a microbatch."""
    if layout.setting.workload.document_len is None or layout.outside is None:
        return []
    calls = on(CONTEXT, layout.microbatches, layout=layout)
    return [Term("all-gather", CONTEXT, "documents", 4.0 * layout.tokens * layout.context, calls, "exposed")]


def _halo(layout: Layout) -> list[Term]:
    """Keys and values that windowed layers need of the chunks before theirs: forward, again, and their gradients home.

    Of the heads that a rank has where it attends: after an exchange, as many fewer.
    """
    if layout.window is None:
        return []
    layers = layout.setting.model.layers * layout.microbatches
    halo = Halo(layout)
    token = layout.activation_bytes * 2 * layout.sequences * layout.kv_width * layout.kv_copies / layout.exchange
    whole, last = np.maximum(halo.hops - 1.0, 0.0), (1.0 + halo.halves) * (halo.hops > 0)
    return [
        Term("collective-permute", CONTEXT, "kv-halo", token * halo.chunk, 3 * whole * layers, "exposed", "groups"),
        Term("collective-permute", CONTEXT, "kv-halo", token * halo.last, 3 * last * layers, "exposed", "groups"),
    ]
