"""The strategies of a request, whichever kind of workload it asks about."""

from __future__ import annotations

from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.strategy import Strategy
from planner.request.request import SearchRequest
from planner.space.analysis import Analysis, setting_of
from planner.space.reject import broken_rules_of
from planner.workloads.registry import WORKLOADS, planned


def analyse(request: SearchRequest, backends: tuple[str, ...]) -> Analysis:
    """Enumerate, reject, estimate.

    Parameters
    ----------
    request
        The question.
    backends
        The collective backends that are real under the toolchain at hand.
    """
    workload = planned(request)
    space = workload.space(request, backends)
    return Analysis.of(request, space, workload.price(setting_of(request), space.table))


def valid_points(request: SearchRequest, backends: tuple[str, ...], *, most_devices: int | None = None) -> StrategyTable:
    """Every strategy that breaks no rule, of at most ``most_devices`` devices; strategies that a rule rejects are not kept."""
    points: StrategyTable = planned(request).points(request, backends, most_devices=most_devices)
    return points


def broken_rules(setting: Setting, strategy: Strategy) -> list[str]:
    """Every rule that one strategy breaks, each as its message with its name."""
    return broken_rules_of(setting, strategy, rules=WORKLOADS[setting.workload.kind].rules)
