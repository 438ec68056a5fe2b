"""The largest whole number at which something still fits, where each row needs more the larger it is."""

from __future__ import annotations

from collections.abc import Callable

from cost_models.inputs.layout import Floats
from cost_models.inputs.table import StrategyTable

Need = Callable[[StrategyTable, int], Floats]
"""Memory that each row needs at a number [bytes per device], shape [n]; never less at a larger number."""


def last_fit(table: StrategyTable, need: Need, *, budget_bytes: int, low: int, high: int) -> int | None:
    """The largest number in ``low..high`` at which some row fits; None if no row fits at ``low``.

    Doubles from ``low``, then halves the bracket. A row that does not fit at one number fits at no larger one, so it is
    dropped there and the columns shrink on the way.
    """
    if low > high:
        return None
    rows = _fitting(table, need, number=low, budget_bytes=budget_bytes)
    if not len(rows):
        return None
    good, step = low, 1
    while good < high:
        probe = min(good + step, high)
        still = _fitting(rows, need, number=probe, budget_bytes=budget_bytes)
        if not len(still):
            high = probe - 1
            break
        good, rows, step = probe, still, step * 2
    while good < high:
        probe = (good + high + 1) // 2
        still = _fitting(rows, need, number=probe, budget_bytes=budget_bytes)
        if len(still):
            good, rows = probe, still
        else:
            high = probe - 1
    return good


def _fitting(table: StrategyTable, need: Need, *, number: int, budget_bytes: int) -> StrategyTable:
    return table.take(need(table, number) <= budget_bytes) if len(table) else table
