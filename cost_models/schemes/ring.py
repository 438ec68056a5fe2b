"""Ring: keys and values travel from rank to rank, or from group to group of ranks that exchange heads."""

from __future__ import annotations

import numpy as np

from cost_models.inputs.collective_term import Term
from cost_models.inputs.layout import Bools, Floats, Layout
from cost_models.schemes.interface import CONTEXT, SchemeCost

FP32_BYTES = 4.0


def ring_terms(layout: Layout) -> list[Term]:
    """Return the hops of keys and values, forward and backward, and of their gradients.

    A ring makes ``c - 1`` hops forward. The backward pass repeats the first hop and continues from its chunk; where attention
    is recomputed, the other hops are repeated too. Partial sums of gradients travel in fp32; complete gradients make one more
    hop in the activations' dtype, and so does the only share that a ring of two passes. With two directions each carries half.

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
    layers = layout.setting.model.layers * layout.microbatches
    others = layout.chunks - 1
    again = np.where(layout.saves("attention_output") & layout.saves("lse"), 0.0, others - 1)
    ring = np.where(layout.rings, layers * layout.directions, 0.0)
    sums = np.where(others > 1, others, 0.0)
    message = 2 * layout.tokens * layout.kv_width * layout.kv_copies / layout.directions
    keys = layout.activation_bytes * message
    return [
        Term("collective-permute", CONTEXT, "kv-ring", keys, ring * (2 * others + again), "ring", "groups"),
        Term("collective-permute", CONTEXT, "kv-gradients", FP32_BYTES * message, ring * sums, "ring", "groups"),
        Term("collective-permute", CONTEXT, "kv-gradients", keys, ring * (1.0 + others - sums), "ring", "groups"),
    ]


def contiguous_ring(layout: Layout) -> Bools:
    """Return the rows in which ranks hold contiguous chunks, so that the slowest rank's later ring steps are full chunks.

    In some programs the ring between groups that exchange heads is contiguous too (``Program.ring_chunks``).

    Parameters
    ----------
    layout : Layout
        Candidates.

    Returns
    -------
    ndarray of bool, shape [n]
        True where work is not balanced [no unit].

    Notes
    -----
    Source: Brandon et al., Striped Attention (arXiv:2311.09431), section 3.
    """
    between_groups = layout.setting.program.ring_chunks == "contiguous"
    return layout.scheme_has(lambda facts: facts.rings and (not facts.balanced or (facts.groups and between_groups)))


def _at_rest(layout: Layout) -> Floats:
    """Return one chunk, since a ring has made its first hop."""
    return np.where(layout.rings, 1.0, 0.0)


def _backward(layout: Layout) -> Floats:
    """Return the buffers for a chunk in flight, a copy, and the fp32 gradients that travel with it."""
    return np.where(layout.rings, 2.0 + FP32_BYTES / layout.held_bytes, 0.0)


def _torch(layout: Layout) -> Floats:
    """Return the size of keys and values, current and in flight, of their fp32 gradients, and of the queries' gradients."""
    pair = 2.0 * layout.tokens * layout.kv_width
    held = 2.0 * (layout.activation_bytes + FP32_BYTES) * pair + FP32_BYTES * layout.tokens * layout.query_width
    return np.where(layout.rings, held, 0.0)


RING = SchemeCost("ring", lambda facts: facts.rings, ring_terms, _at_rest, _backward, _torch)
