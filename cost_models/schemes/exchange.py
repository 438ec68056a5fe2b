"""Exchange of heads: neighbouring context ranks trade parts of the sequence for parts of the heads, and back."""

from __future__ import annotations

import numpy as np

from cost_models.inputs.collective_term import Term
from cost_models.inputs.layout import Layout
from cost_models.schemes.interface import CONTEXT, SchemeLaw
from lcplan.strategy import SchemeFacts


def _exchanges(facts: SchemeFacts) -> bool:
    return facts.exchange != "nothing"


def exchange_terms(layout: Layout) -> list[Term]:
    """Forward query, key-value, output; backward these again, then the output's cotangent and the gradients.

    Where the ranks that exchange outnumber the device's KV heads, each head goes to several.

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
    layers = np.where(layout.scheme_has(_exchanges), layout.setting.model.layers * layout.microbatches, 0.0)
    query = layout.activation_bytes * layout.tokens * layout.query_width
    pair = layout.activation_bytes * 2 * layout.tokens * layout.kv_width * layout.kv_copies
    return [
        Term("all-to-all", CONTEXT, "ulysses-query", query, 6 * layers, "exposed", "neighbours"),
        Term("all-to-all", CONTEXT, "ulysses-key-value", pair, 3 * layers, "exposed", "neighbours"),
    ]


EXCHANGE = SchemeLaw("exchange", _exchanges, exchange_terms)
