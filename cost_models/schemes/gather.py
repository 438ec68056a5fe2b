"""All-gather: every rank gathers the keys and values of all ranks; a reduce-scatter sums their gradients."""

from __future__ import annotations

import numpy as np

from cost_models.inputs.collective_term import Term
from cost_models.inputs.layout import Floats, Layout
from cost_models.inputs.stages import layer_passes
from cost_models.schemes.interface import CONTEXT, SchemeCost

FP32_BYTES = 4.0


def gather_terms(layout: Layout) -> list[Term]:
    """Return one gather forward, one backward, and one reduce-scatter of fp32 gradients.

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
    layers = layer_passes(layout)
    gather = np.where(layout.gathers, layers, 0.0)
    pair = 2 * layout.tokens * layout.kv_width
    gathered = layout.activation_bytes * pair * layout.context
    return [
        Term("all-gather", CONTEXT, "kv-gather", gathered, 2 * gather, "exposed"),
        Term("reduce-scatter", CONTEXT, "kv-gradients", FP32_BYTES * pair * layout.context, gather, "exposed"),
    ]


def _backward(layout: Layout) -> Floats:
    """Return the buffers for every rank's chunk and its fp32 gradients."""
    fp32 = FP32_BYTES / layout.held_bytes
    return np.where(layout.gathers, (1.0 + fp32) * layout.context + 1.0, 0.0)


def _torch(layout: Layout) -> Floats:
    """Return the size of the whole sequence's keys and values and of their unreduced gradients."""
    pair = 2.0 * layout.tokens * layout.kv_width
    return np.where(layout.gathers, 2.0 * layout.activation_bytes * layout.context * pair, 0.0)


GATHER = SchemeCost("gather", lambda facts: facts.gathers, gather_terms, pairs_backward=_backward, torch_bytes=_torch)
