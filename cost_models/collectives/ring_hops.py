"""Exposed time of a ring's messages, which share the network during one kernel."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cost_models.attention.work import exposed_hop_seconds
from cost_models.inputs.collective_term import Term
from cost_models.inputs.layout import Floats, Layout

RING = {"kv-ring", "kv-gradients"}


def is_hop(term: Term) -> bool:
    """Whether a term is a hop of a ring.

    Parameters
    ----------
    term : Term
        Collective.

    Returns
    -------
    bool
        True for permutes that travel round a ring [no unit].

    Notes
    -----
    Source: ``cost_models.schemes.ring``.
    """
    return term.purpose in RING and term.op == "collective-permute"


def exposed_ring_seconds(
    layout: Layout, terms: Iterable[tuple[Term, Floats]], *, forward_s: Floats, backward_s: Floats
) -> tuple[Floats, Floats]:
    """Return the exposed time of a ring's messages, of forward passes with repetitions and of backward passes.

    A forward hop is hidden as far as the kernel of its ring step lasts: ``max(h - k, 0)``. In the backward pass keys and values
    travel during the same kernel as gradients do, one message after the other: ``max(h + g - k, 0)``. A PyTorch function
    returns only after the last hop of the gradients, which no kernel hides.

    Parameters
    ----------
    layout : Layout
        Candidates.
    terms : iterable of (Term, ndarray)
        Collectives with the time of one call [s].
    forward_s : ndarray, shape [n]
        k, forward kernel of one later ring step [s]; 0 where nothing overlaps.
    backward_s : ndarray, shape [n]
        The same of the backward pass [s].

    Returns
    -------
    tuple of ndarray, shape [n] each
        Exposed time, forward and backward [s per step].

    Notes
    -----
    Two directions make their calls at the same time. Source: Liu et al., Ring Attention (arXiv:2310.01889), section 3; github
    zhuzilin/ring-flash-attention, zigzag_ring_flash_attn.py, for the order of the messages.
    """
    hops = [(term, seconds) for term, seconds in terms if is_hop(term)]
    zero = np.zeros(len(layout.table))
    forward, backward, sent = zero, zero, {}
    for term, seconds in hops:
        if term.purpose == "kv-ring":
            calls = (term.calls - term.backward) / layout.directions
            forward = forward + calls * exposed_hop_seconds(forward_s * term.steps, seconds)
            if np.any(term.backward):
                sent[term.subgroup] = seconds
                backward = backward + term.backward / layout.directions * exposed_hop_seconds(backward_s * term.steps, seconds)
    last = 1.0 if layout.setting.program.last_gradients == "exposed" else 0.0
    for term, seconds in hops:
        if term.purpose == "kv-gradients":
            left = np.maximum(backward_s * term.steps - sent.get(term.subgroup, zero), 0.0)
            hidden = (term.calls - last * term.last) / layout.directions * exposed_hop_seconds(left, seconds)
            backward = backward + hidden + last * term.last / layout.directions * seconds
    return forward, backward
