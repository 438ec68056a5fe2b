"""SchemeCost: the cost of one way of moving keys and values over the context axis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cost_models.inputs.collective_term import Term
from cost_models.inputs.layout import Floats, Layout
from lcplan.strategy import AxisName, SchemeFacts

CONTEXT: tuple[AxisName, ...] = ("context",)

Column = Callable[[Layout], Floats]
"""A cost of the candidates: shape ``[n]``, 0 in rows to which it does not apply."""


def nothing(layout: Layout) -> Floats:
    """Return 0 for every row.

    Parameters
    ----------
    layout : Layout
        Candidates.

    Returns
    -------
    ndarray, shape [n]
        Zeros [bytes].

    Notes
    -----
    Source: a scheme without buffers of its own.
    """
    return np.zeros(len(layout.table))


@dataclass(frozen=True)
class SchemeCost:
    """Cost of one way of moving keys and values, for the schemes whose facts satisfy ``applies``.

    Source: docs/step.md, schemes.
    """

    name: str
    applies: Callable[[SchemeFacts], bool]
    terms: Callable[[Layout], list[Term]]
    """Collectives of a step over the context axis."""
    pairs_at_rest: Column = nothing
    """Chunks of keys and values held outside attention's backward pass, in addition to the rank's own [chunks]."""
    pairs_backward: Column = nothing
    """Chunks of keys and values, and of their gradients, held while the kernel runs backward, in addition to its operands and
    results [chunks in the dtype that the device holds]."""
    torch_bytes: Column = nothing
    """Buffers of a PyTorch program's attention [bytes]."""
