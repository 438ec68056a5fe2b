"""Distinct placements: rows of a table that differ only in knobs place their collectives' groups on the same devices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cost_models.inputs.layout import Layout
from lcplan.strategy import AXES

PLACED_BY = (*AXES, "ulysses", "axis_order", "scheme", "expert_fold", "expert_tensor", "segment")
"""Columns on which the placement of a group depends."""
FEWEST_ROWS = 512
"""Smallest table for which the search for equal placements pays off."""


@dataclass(frozen=True)
class Places:
    """The distinct placements of a table.

    ``layout`` has one row for each placement, and ``index`` gives the placement of every row of the table [row index].

    Source: planner/space/enumerate.py, which makes every mesh with every choice of the knobs.
    """

    layout: Layout
    index: NDArray[np.intp] | None
    """None where the layout is the table's own."""

    def spread(self, column: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a column of the placements as a column of the table, in the column's own unit [no unit], shape ``[n]``."""
        return column if self.index is None else column[self.index]

    def rows(self, rows: slice) -> Places:
        """Return the same placements for a part of the table."""
        index = np.arange(len(self.layout.table)) if self.index is None else self.index
        return Places(self.layout, index[rows])


def distinct_places(layout: Layout) -> Places:
    """Find the rows that place their groups on the same devices.

    Every row gets an integer in which each column of ``PLACED_BY`` is a digit; equal integers are equal placements.

    Parameters
    ----------
    layout : Layout
        Candidates.

    Returns
    -------
    Places
        Placements [rows] and each candidate's, shape ``[n]`` [no unit].

    Notes
    -----
    Tables with fewer than ``FEWEST_ROWS`` rows, and tables whose integers exceed 62 bits, are left unchanged.
    Source: planner/space/enumerate.py, which makes every mesh with every choice of the knobs.
    """
    table = layout.table
    if len(table) < FEWEST_ROWS:
        return Places(layout, None)
    number, digits = np.zeros(len(table), dtype=np.int64), 1
    for name in PLACED_BY:
        column = getattr(table, name)
        low, high = int(column.min()), int(column.max())
        if high > low:
            number = number * (high - low + 1) + (column - low)
            digits *= high - low + 1
    if digits >= 2**62:
        return Places(layout, None)
    _, first, index = np.unique(number, return_index=True, return_inverse=True)
    return Places(Layout(layout.setting, table.take(first)), index)
