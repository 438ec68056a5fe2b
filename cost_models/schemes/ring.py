"""Ring: keys and values travel from rank to rank, or from group to group of ranks that exchange heads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cost_models.inputs.collective_term import Subgroup, Term
from cost_models.inputs.layout import Bools, Floats, Layout
from cost_models.inputs.stages import layer_passes
from cost_models.schemes.interface import CONTEXT, SchemeCost

FP32_BYTES = 4.0


def ring_window(layout: Layout) -> Floats:
    """Return the ranks of an inner ring: those inside one domain where the program runs a double ring, else all.

    Parameters
    ----------
    layout : Layout
        Candidates.

    Returns
    -------
    ndarray, shape [n]
        Ranks [count], a divisor of the ring's.

    Notes
    -----
    Source: LoongTrain (arXiv:2406.18485), section 5.2: windows of the ranks of one node.
    """
    if layout.setting.program.ring_order == "plain":
        return layout.chunks
    inside = np.maximum(np.floor(layout.segment / (layout.tensor * layout.exchange)), 1.0)
    return np.gcd(inside.astype(np.int64), layout.chunks.astype(np.int64)).astype(np.float64)


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
    Source: docs/step.md, table of collectives; for other programs' rings ``Program.ring_order`` and ``Program.ring_backward``.
    """
    program = layout.setting.program
    if program.ring_order == "double" or program.ring_backward == "queries":
        return _other_rings(layout)
    layers = layer_passes(layout)
    others = layout.chunks - 1
    again = np.where(layout.saves("attention_output") & layout.saves("lse"), 0.0, others - 1)
    ring = np.where(layout.rings, layers * layout.directions, 0.0)
    sums = np.where(others > 1, others, 0.0)
    message = 2 * layout.tokens * layout.kv_width * layout.kv_copies / layout.directions
    keys, last = layout.activation_bytes * message, ring * (1.0 + others - sums)
    partial = FP32_BYTES * message if program.ring_gradients == "fp32" else keys
    return [
        _hop("kv-ring", keys, ring * (2 * others + again), backward=ring * others),
        _hop("kv-gradients", partial, ring * sums, backward=ring * sums),
        _hop("kv-gradients", keys, last, backward=last, last=np.minimum(last, ring)),
    ]


def _hop(purpose: str, message: Floats, calls: Floats, *, backward: Floats, last: Floats | float = 0.0) -> Term:
    return Term("collective-permute", CONTEXT, purpose, message, calls, "ring", "groups", backward=backward, last=last)


def _other_rings(layout: Layout) -> list[Term]:
    """Return the hops of a PyTorch ring in one or two levels, whose backward pass sends keys or queries.

    The inner rings make ``w - 1`` hops in each of ``c / w`` rounds, and the outer ring one between rounds; complete gradients
    make one more hop at each level.
    """
    queries = layout.setting.program.ring_backward == "queries"
    layers = np.where(layout.rings, layer_passes(layout), 0.0)
    window = ring_window(layout)
    rounds = layout.chunks / window
    pair = 2.0 * layout.tokens * layout.kv_width * layout.kv_copies
    query = layout.tokens * layout.query_width
    keys, sent = layout.activation_bytes * pair, layout.activation_bytes * (2.0 * query if queries else pair)
    width = FP32_BYTES if layout.setting.program.ring_gradients == "fp32" else layout.activation_bytes
    sums = width * (query if queries else pair)
    repeats = 1.0 + ~(layout.saves("attention_output") & layout.saves("lse"))
    levels: tuple[tuple[Subgroup, Floats, Floats], ...] = (
        ("window", rounds * (window - 1.0), np.ones_like(window)),
        ("windows", rounds - 1.0, window),
    )
    terms: list[Term] = []
    for level, hops, steps in levels:
        calls, home = layers * hops, layers * (hops > 0)
        first = Term("collective-permute", CONTEXT, "kv-ring", keys, repeats * calls, "ring", level, steps=steps)
        again = replace(first, bytes=sent, calls=calls, backward=calls)
        back = replace(again, purpose="kv-gradients", bytes=sums, calls=calls + home, backward=calls + home, last=home)
        terms += [first, again, back]
    return terms


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
