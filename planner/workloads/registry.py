"""The registry of workloads: one line for each kind."""

from __future__ import annotations

from typing import Any

from planner.request.request import SearchRequest
from planner.workloads.interface import PlannedWorkload
from planner.workloads.rl import ITERATION
from planner.workloads.rollout import ROLLOUT
from planner.workloads.train import TRAIN_STEP

WORKLOADS: dict[str, PlannedWorkload[Any]] = {"train": TRAIN_STEP, "sample": ROLLOUT, "rl": ITERATION}
"""Every workload by its kind."""


def planned(request: SearchRequest) -> PlannedWorkload[Any]:
    """The workload of a request."""
    return WORKLOADS[request.workload.kind]
