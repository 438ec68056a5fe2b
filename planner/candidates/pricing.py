"""Pricing: the laws of whatever a table's strategies run, a train step or a rollout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cost_models.estimate import EstimateTable, allowance_bytes, estimate, memory_law
from cost_models.inputs.kernel_groups import kernel_groups
from cost_models.inputs.layout import Floats, Layout
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.memory.saved_tensors import host_is_full
from cost_models.rollout.estimate import estimate_rollout, rollout_need_bytes
from cost_models.rollout.iteration import IterationTable, estimate_iteration
from cost_models.rollout.table import RolloutTable
from lcplan.strategy import Strategy


def price_table(setting: Setting, table: StrategyTable) -> EstimateTable:
    """The estimate of every strategy of ``table``."""
    if isinstance(table, IterationTable):
        return estimate_iteration(setting, table)
    return estimate_rollout(setting, table) if isinstance(table, RolloutTable) else estimate(setting, table)


def need_bytes(setting: Setting, table: StrategyTable) -> Floats:
    """What each strategy needs of a device's budget: its executable's total and the allowance beside it.

    Returns
    -------
    ndarray, shape [n]
        Need [bytes per device]; the strategy fits where it is at most the budget. Infinite where the host has no room for
        what remat offloads, which no budget helps.
    """
    if isinstance(table, IterationTable):
        priced = estimate_iteration(setting, table)
        return priced.total_bytes + priced.allowance_bytes
    if isinstance(table, RolloutTable):
        return rollout_need_bytes(setting, table)
    need = np.empty(len(table))
    for group, rows in kernel_groups(setting, table):
        layout = Layout(group, table.take(rows))
        _, total, _ = memory_law(layout).parts()
        need[rows] = np.where(host_is_full(layout), np.inf, total + allowance_bytes(layout))
    return need


def table_of(strategies: Sequence[Strategy]) -> StrategyTable:
    """Strategies as columns, with their rollouts where they have them."""
    rollout = strategies[0].sampling if strategies else None
    if rollout is None:
        return StrategyTable.from_strategies(strategies)
    return (IterationTable if rollout.beside_training else RolloutTable).from_strategies(strategies)
