"""Feasibility only: how much a strategy needs and whether anything fits, without pricing time."""

from __future__ import annotations

import numpy as np

from cost_models.estimate import EstimateTable
from cost_models.inputs.table import StrategyTable
from planner.candidates.candidate import Candidate
from planner.request.request_changes import Ask
from planner.space.analysis import setting_of
from planner.workloads.points import valid_points
from planner.workloads.pricing import need_bytes, price_table


def fits_any(ask: Ask) -> bool:
    """Whether some valid strategy fits the budget, by the cost model."""
    table = valid_points(ask.request, ask.backends, most_devices=ask.most_devices)
    return bool(len(table)) and bool((need_bytes(setting_of(ask.request), table) <= ask.request.budget_bytes).any())


def rules_leave_any(ask: Ask) -> bool:
    """Whether a valid strategy exists, whatever it needs; a single device's counts where there are no more devices."""
    table = valid_points(ask.request, ask.backends, most_devices=ask.most_devices)
    return bool((table.devices >= min(2, ask.most_devices)).any())


def nearest_miss(ask: Ask) -> Candidate | None:
    """The valid strategy that needs least memory, priced; None where the rules reject all."""
    table = valid_points(ask.request, ask.backends, most_devices=ask.most_devices)
    if not len(table):
        return None
    setting = setting_of(ask.request)
    row = table.take(np.array([np.argmin(need_bytes(setting, table))]))
    return Candidate(strategy=row.strategy(0), estimate=price_table(setting, row).row(0))


def best_row(table: StrategyTable, estimates: EstimateTable, *, objective: str, fits: np.ndarray) -> int | None:
    """The row that a search ranks first among those marked: by objective, then fewer devices, then less memory."""
    rows = np.flatnonzero(fits)
    if not len(rows):
        return None
    each = table.devices[rows] if objective == "tokens_per_s_per_device" else np.ones(len(rows), dtype=np.int64)
    cost = estimates.step_s[rows] * each
    rows = rows[cost == cost.min()]
    return int(rows[np.lexsort((estimates.total_bytes[rows], table.devices[rows]))[0]])
