"""Estimates and memory needs of strategies, from the cost model of the setting's workload."""

from __future__ import annotations

from collections.abc import Sequence

from cost_models.estimate import EstimateTable
from cost_models.inputs.layout import Floats
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.strategy import Strategy
from planner.candidates.candidate import Candidate
from planner.request.request import SearchRequest
from planner.space.analysis import setting_of
from planner.workloads.registry import WORKLOADS


def price_table(setting: Setting, table: StrategyTable) -> EstimateTable:
    """The estimate of every strategy of ``table``."""
    return WORKLOADS[setting.workload.kind].price(setting, table)


def need_bytes(setting: Setting, table: StrategyTable) -> Floats:
    """Memory that each strategy takes from the budget [bytes per device], shape ``[n]``; infinite: no budget helps."""
    return WORKLOADS[setting.workload.kind].need_bytes(setting, table)


def table_of(setting: Setting, strategies: Sequence[Strategy]) -> StrategyTable:
    """Strategies as columns of the table that the setting's workload prices."""
    table: StrategyTable = WORKLOADS[setting.workload.kind].table_of(strategies)
    return table


def price(request: SearchRequest, strategy: Strategy) -> Candidate:
    """The strategy with its estimate."""
    setting = setting_of(request)
    return Candidate(strategy=strategy, estimate=price_table(setting, table_of(setting, [strategy])).row(0))
