"""Term: one kind of collective of a step, as columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from cost_models.inputs.layout import Bools, Floats, Layout
from lcplan.spec.collective import Op
from lcplan.strategy import AxisName

Subgroup = Literal["neighbours", "groups", "window", "windows", "experts", "expert-replicas", "optimizer"]
"""Ranks that take part, where these are not all ranks of the axes.

``neighbours``: the context ranks of one exchange of heads. ``groups``: one context rank of each such group, or all ranks
without an exchange. ``window``: those of a double ring inside one domain. ``windows``: one of each such window.
``experts``: the ranks that share a layer's experts, folded or not. ``expert-replicas``: the ranks that share the state of one
expert's matrices. ``optimizer``: neighbours that share the optimizer's state.
"""

Schedule = Literal["prefetch", "behind-backward", "ring", "exposed"]
"""The work that a collective can overlap: the previous layer, the backward pass, a ring step's kernel, or nothing."""


@dataclass(frozen=True)
class Term:
    """One kind of collective: ``calls`` of ``op`` per step over the group that ``axes`` span; columns of shape ``[n]``.

    ``bytes`` is the larger side of the operand on one device [bytes]; ``calls`` is 0 where the group has one member [count].

    Source: docs/step.md, table of collectives.
    """

    op: Op
    axes: tuple[AxisName, ...]
    purpose: str
    bytes: Floats
    calls: Floats
    schedule: Schedule
    subgroup: Subgroup | None = None
    moved: Floats | None = None
    """Bytes of the operand that the collective moves, where that is less: a ragged all-to-all's buffer is rarely full."""
    backward: Floats | float = 0.0
    """A ring's calls in the backward pass [per step]."""
    last: Floats | float = 0.0
    """A ring's calls that follow its last kernel [per step]."""
    steps: Floats | float = 1.0
    """Ring steps whose kernels one call overlaps [count]."""

    @cached_property
    def used(self) -> Bools:
        """Rows that make at least one call."""
        return self.calls > 0


def merged(terms: list[Term]) -> list[Term]:
    """Return the terms, with terms that differ only in their calls merged: layers of different kinds share some collectives.

    Parameters
    ----------
    terms : list of Term
        Bytes [bytes per call], calls [per step].

    Returns
    -------
    list of Term
        In the order of first occurrence; calls [per step] are summed.

    Notes
    -----
    Source: docs/step.md, layers of several kinds.
    """
    found: list[Term] = []
    for term in terms:
        same = next((index for index, other in enumerate(found) if _alike(term, other)), None)
        if same is None:
            found.append(term)
        else:
            sums = {name: getattr(found[same], name) + getattr(term, name) for name in ("calls", "backward", "last")}
            found[same] = replace(term, **sums)
    return found


def _alike(one: Term, other: Term) -> bool:
    names = "op", "axes", "purpose", "schedule", "subgroup"
    if any(getattr(one, name) != getattr(other, name) for name in names) or (one.moved is None) != (other.moved is None):
        return False
    moved = one.moved is None or other.moved is None or np.array_equal(one.moved, other.moved)
    return moved and np.array_equal(one.bytes, other.bytes)


def on(axes: tuple[AxisName, ...], calls: Floats | float, *, layout: Layout) -> Floats:
    """Return ``calls`` where the group of ``axes`` has more than one member, else 0.

    Parameters
    ----------
    axes : tuple of axis names
        Mesh axes that the group spans.
    calls : ndarray or float
        Calls per step [count].
    layout : Layout
        Candidates.

    Returns
    -------
    ndarray, shape [n]
        Calls [per step].

    Notes
    -----
    Source: docs/step.md: an axis of size 1 has no collective.
    """
    return np.multiply(calls, layout.members(axes) > 1, dtype=np.float64)
