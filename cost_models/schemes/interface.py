"""SchemeLaw: the parts of the cost model that one way of moving keys and values over the context axis decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cost_models.inputs.collective_term import Term
from cost_models.inputs.layout import Floats, Layout
from lcplan.strategy import AxisName, SchemeFacts

CONTEXT: tuple[AxisName, ...] = ("context",)

Column = Callable[[Layout], Floats]
"""A law of the candidates: shape ``[n]``, 0 in rows that the law does not apply to."""


def nothing(layout: Layout) -> Floats:
    """Count 0 in every row.

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
    Source: a law without buffers of its own.
    """
    return np.zeros(len(layout.table))


@dataclass(frozen=True)
class SchemeLaw:
    """Cost of one way of moving keys and values, for the schemes whose facts satisfy ``applies``.

    Source: docs/step.md, schemes.
    """

    name: str
    applies: Callable[[SchemeFacts], bool]
    terms: Callable[[Layout], list[Term]]
    """Collectives of a step over the context axis."""
    pairs_at_rest: Column = nothing
    """Chunks of keys and values held outside of attention's backward pass, beyond the rank's own [chunks]."""
    pairs_backward: Column = nothing
    """Chunks of keys and values, and of their gradients, held while the kernel runs backward, beyond its operands and results
    [chunks in the dtype that the device holds]."""
    torch_bytes: Column = nothing
    """Buffers of a PyTorch program's attention [bytes]."""
