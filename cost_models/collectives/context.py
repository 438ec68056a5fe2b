"""The context axis's collectives: keys and values to the queries, and their gradients back, by scheme."""

from __future__ import annotations

import numpy as np

from cost_models.collectives.collective_term import Term, on
from cost_models.inputs.layout import Floats, Layout
from cost_models.masks.windows import Halo
from lcplan.strategy import AxisName


def context_terms(layout: Layout) -> list[Term]:
    """Keys and values to the queries, and their gradients back; by scheme.

    A ring makes ``c - 1`` hops forward. The backward pass starts from the first hop's chunk, which it makes again, and goes
    on from there; where attention itself is recomputed, its hops come on top, but for that first one. Gradients travel in
    fp32 while they are sums, and once more, complete, in the activations' dtype; so does the one share that a ring of two
    passes on. A rank that exchanged heads has as many keys and values as before, but for copies; of two lanes each carries
    half.

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
    context: tuple[AxisName, ...] = ("context",)
    layers = layout.setting.model.layers * layout.microbatches
    others = layout.chunks - 1
    again = np.where(layout.saves("context") & layout.saves("lse"), 0.0, others - 1)
    ring = np.where(layout.rings, layers * layout.lanes, 0.0)
    sums = np.where(others > 1, others, 0.0)
    gather = np.where(layout.gathers, layers, 0.0)
    pair = 2 * layout.tokens * layout.kv_width
    message = pair * layout.kv_copies / layout.lanes
    keys = layout.activation_bytes * message
    gathered = layout.activation_bytes * pair * layout.context
    return [
        Term("collective-permute", context, "kv-ring", keys, ring * (2 * others + again), "ring", "groups"),
        Term("collective-permute", context, "kv-gradients", 4.0 * message, ring * sums, "ring", "groups"),
        Term("collective-permute", context, "kv-gradients", keys, ring * (1.0 + others - sums), "ring", "groups"),
        Term("all-gather", context, "kv-gather", gathered, 2 * gather, "exposed"),
        Term("reduce-scatter", context, "kv-gradients", 4.0 * pair * layout.context, gather, "exposed"),
        *_documents(layout),
        *_halo(layout, layers),
        *_exchange(layout, np.where(layout.is_scheme("ulysses") | layout.is_scheme("ulysses-ring"), layers, 0.0)),
    ]


def _documents(layout: Layout) -> list[Term]:
    """Ids of the documents of whole sequences, int32, once a microbatch."""
    if layout.setting.workload.document_len is None or layout.outside is None:
        return []
    context: tuple[AxisName, ...] = ("context",)
    calls = on(context, layout.microbatches, layout=layout)
    return [Term("all-gather", context, "documents", 4.0 * layout.tokens * layout.context, calls, "exposed")]


def _halo(layout: Layout, layers: Floats) -> list[Term]:
    """Keys and values that windowed layers need of the chunks before theirs: forward, again, and their gradients home.

    Of the heads that a rank has where it attends: after an exchange, as many fewer.
    """
    if layout.window is None:
        return []
    context: tuple[AxisName, ...] = ("context",)
    halo = Halo(layout)
    token = layout.activation_bytes * 2 * layout.sequences * layout.kv_width * layout.kv_copies / layout.exchange
    whole, last = np.maximum(halo.hops - 1.0, 0.0), (1.0 + halo.halves) * (halo.hops > 0)
    return [
        Term("collective-permute", context, "kv-halo", token * halo.chunk, 3 * whole * layers, "exposed", "groups"),
        Term("collective-permute", context, "kv-halo", token * halo.last, 3 * last * layers, "exposed", "groups"),
    ]


def _exchange(layout: Layout, layers: Floats) -> list[Term]:
    """Forward query, key-value, output; backward these again, then the output's cotangent and the gradients.

    Where the ranks that exchange outnumber the device's KV heads, each head goes to several.
    """
    context: tuple[AxisName, ...] = ("context",)
    query = layout.activation_bytes * layout.tokens * layout.query_width
    pair = layout.activation_bytes * 2 * layout.tokens * layout.kv_width * layout.kv_copies
    return [
        Term("all-to-all", context, "ulysses-query", query, 6 * layers, "exposed", "neighbours"),
        Term("all-to-all", context, "ulysses-key-value", pair, 3 * layers, "exposed", "neighbours"),
    ]
