"""The analytic half of a rollout's search: space, rules, estimate."""

from __future__ import annotations

import numpy as np

from cost_models.rollout.estimate import estimate_rollout
from cost_models.rollout.table import RolloutTable
from planner.request.request import SearchRequest
from planner.rules.rollout import ROLLOUT_RULES
from planner.space.analysis import Analysis, mesh_table, setting_of
from planner.space.enumerate import mesh_sizes
from planner.space.reject import Rejected, screen
from planner.space.rollout_space import expand


def analyse_rollout(request: SearchRequest, backends: tuple[str, ...]) -> Analysis:
    """Enumerate, reject, estimate; a mesh that is rejected counts as one."""
    setting = setting_of(request)
    meshes = mesh_sizes(request)
    as_table = mesh_table(meshes)
    broken = screen(setting, ROLLOUT_RULES, as_table)
    table = expand(request.filters, backends, meshes[broken < 0])
    kept = broken >= 0
    rejected = Rejected(ROLLOUT_RULES, as_table.take(kept), broken[kept], np.ones(int(kept.sum()), dtype=np.int64))
    return Analysis(setting, request.objective, rejected, table, estimate_rollout(setting, table))


def rollout_points(request: SearchRequest, backends: tuple[str, ...], *, most_devices: int | None = None) -> RolloutTable:
    """Every layout that breaks no rule, of at most ``most_devices`` devices."""
    meshes = mesh_sizes(request, most_devices)
    kept = screen(setting_of(request), ROLLOUT_RULES, mesh_table(meshes)) < 0
    return expand(request.filters, backends, meshes[kept])
