"""Exchange of heads: neighbouring context ranks exchange a split of the sequence for a split of the heads, and the reverse."""

from __future__ import annotations

import numpy as np

from cost_models.inputs.collective_term import Term
from cost_models.inputs.layout import Layout
from cost_models.inputs.stages import layer_passes
from cost_models.schemes.interface import CONTEXT, SchemeCost
from lcplan.strategy import SchemeFacts


def _exchanges(facts: SchemeFacts) -> bool:
    return facts.exchange != "nothing"


def exchange_terms(layout: Layout) -> list[Term]:
    """Return the all-to-alls of query, key-value and output, which backward repeats, and of cotangent and gradients.

    Where the ranks of an exchange outnumber the device's KV heads, each head goes to several ranks.

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
    layers = np.where(layout.scheme_has(_exchanges), layer_passes(layout), 0.0)
    query = layout.activation_bytes * layout.tokens * layout.query_width
    pair = layout.activation_bytes * 2 * layout.tokens * layout.kv_width * layout.kv_copies
    return [
        Term("all-to-all", CONTEXT, "ulysses-query", query, 6 * layers, "exposed", "neighbours"),
        Term("all-to-all", CONTEXT, "ulysses-key-value", pair, 3 * layers, "exposed", "neighbours"),
    ]


EXCHANGE = SchemeCost("exchange", _exchanges, exchange_terms)
