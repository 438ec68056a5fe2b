"""Mixtures of experts in trainers: differences that several have."""

from __future__ import annotations

from planner.trainers.common.interface import Difference, Job


def buffers(job: Job, trainer: str) -> list[Difference]:
    """Buffers of a dropless dispatch in PyTorch have as many rows as arrive; lcplan's step has buffers of a fixed size."""
    strategy = job.strategy
    if job.model.experts is None or strategy.moe_dispatch == "capacity":
        return []
    percent = strategy.moe_capacity_percent
    size = f"{percent} % of a balanced load; further rows are dropped" if percent else "the worst case; no row is dropped"
    return [
        Difference(
            name="expert-buffers",
            plan=f"buffers of {size}",
            trainer="buffers of the rows that arrive; no row is dropped",
            why=f"{trainer} allocates them in each step, so a router that is out of balance takes more memory",
        )
    ]
