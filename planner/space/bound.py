"""A bound for large spaces: device counts on which no strategy can be the fastest are counted and not priced."""

from __future__ import annotations

import numpy as np

from cost_models.estimate import estimate, least_step_seconds, need_bytes
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.formats.units import format_seconds
from lcplan.strategy import AXES, Strategy
from planner.request.request import SearchRequest
from planner.rules import Rule
from planner.rules.interface import Mask
from planner.space.enumerate import Knobs, expand
from planner.space.reject import screen
from planner.space.shapes import Ints

MOST_POINTS = 2**21
"""Strategies up to which all are priced: about two seconds."""


def cannot_win(request: SearchRequest, setting: Setting, meshes: Ints, *, knobs: Knobs, rules: tuple[Rule, ...]) -> Rule | None:
    """Return the rule that rejects meshes on too few devices to win; None where the request asks for them or all are few.

    A strategy on the most devices that fits gives a step. On fewer devices the model's FLOPs at the fastest kernel's rate may
    take longer.

    Parameters
    ----------
    meshes
        Meshes that keep every rule, in the order of ``PLACED``.
    knobs, rules
        Values of the knobs, and the rules on them.
    """
    bounded = request.devices is None and request.objective != "tokens_per_s_per_device" and setting.model.experts is None
    if not bounded or not len(meshes):
        return None
    few = request.model_copy(update={"filters": request.filters.model_copy(update=_first_of(request, knobs))})
    narrow = Knobs.of(few.filters, knobs["backend"][:1], kind=request.hardware.kind)
    devices = meshes[:, : len(AXES)].prod(axis=1)
    most = int(devices.max())
    while most:
        inside = (devices > most // 2) & (devices <= most)
        step_s = _fastest(setting, expand(few, narrow, meshes[inside]), rules)
        if step_s is not None:
            return _rule(step_s, int(devices.max()))
        most //= 2
    return None


def _first_of(request: SearchRequest, knobs: Knobs) -> dict[str, tuple[object, ...]]:
    return {"backend": knobs["backend"][:1], "loss_chunk_tokens": request.filters.loss_chunk_tokens[:1]}


def _fastest(setting: Setting, table: StrategyTable, rules: tuple[Rule, ...]) -> float | None:
    """The step of the fastest strategy that fits [s]."""
    table = table.take(screen(setting, rules, table) < 0)
    table = table.take(need_bytes(setting, table) <= setting.budget_bytes)
    if not len(table):
        return None
    return float(estimate(setting, table).step_s.min())


def _rule(step_s: float, most: int) -> Rule:
    def broken(setting: Setting, table: StrategyTable) -> Mask:
        counts, row = np.unique(table.devices, return_inverse=True)
        slow = np.array([least_step_seconds(setting, int(count)) > step_s for count in counts])
        return slow[row.ravel()]

    def say(setting: Setting, strategy: Strategy) -> str:
        bound = format_seconds(least_step_seconds(setting, strategy.devices))
        return (
            f"on {strategy.devices} devices the model's FLOPs take {bound} or more, and a strategy on up to {most} takes "
            f"{format_seconds(step_s)} in all; ask for fewer devices with --devices or --hw"
        )

    return Rule("few-devices", "mesh", broken, say)
