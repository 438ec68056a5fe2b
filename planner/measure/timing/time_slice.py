"""Time one rank of a step on one device, inside a worker: two depths, and a line through them to the whole."""

from __future__ import annotations

from math import gcd, lcm
from typing import Any

from lcplan.spec.model import ModelSpec
from lcplan.strategy import Strategy
from lcplan.strategy.remat import OFFLOAD_PERCENT
from planner.measure.timing.time_full import time_step
from planner.measure.workers.job import WorkerJob

DEPTHS = (2, 4)
"""Numbers of layers that are timed. The rest of the step is in both, so the difference is the time of two layers."""
DEEPEST = 20
"""Layers of the deeper of two that are timed, at most, where a share of them offloads."""


def time_slice(job: WorkerJob) -> dict[str, Any]:
    """Seconds of the slowest rank's step at full depth, by two depths; a model as shallow as these is timed whole.

    Returns
    -------
    dict
        As ``time_step``'s, of the deeper of the two, with ``step_s`` and ``rank_s`` [s] at full depth and ``extrapolation``.
    """
    depths = tuple(depth for depth in depths_of(job.strategy) if depth < job.model.layers) or (job.model.layers,)
    if len(depths) == 1:
        depths = tuple(dict.fromkeys((*depths, job.model.layers)))
    facts: dict[str, Any] = {}
    seconds: list[float] = []
    for depth in depths:
        facts = time_step(_slice(job, _with_layers(job.model, depth)))
        if facts.get("error"):
            return facts
        seconds.append(facts["step_s"])
    whole = seconds[-1]
    if len(depths) > 1:
        whole += (job.model.layers - depths[-1]) * (seconds[-1] - seconds[0]) / (depths[-1] - depths[0])
    if whole <= 0:
        return {**facts, "error": f"{depths[-1]} layers took less time ({seconds[-1]:.3g} s) than {depths[0]}"}
    return {**facts, "step_s": whole, "rank_s": whole, "extrapolation": {"layers": depths, "step_s": seconds}}


def depths_of(strategy: Strategy) -> tuple[int, ...]:
    """Two depths of which the share that offloads is whole; empty where that takes too many layers."""
    whole = OFFLOAD_PERCENT // gcd(OFFLOAD_PERCENT, strategy.offload_percent)
    least = lcm(DEPTHS[0], whole)
    return tuple(least * depth // DEPTHS[0] for depth in DEPTHS) if 2 * least <= DEEPEST else ()


def _with_layers(model: ModelSpec, layers: int) -> ModelSpec:
    return model.model_copy(update={"layers": layers})


def _slice(job: WorkerJob, model: ModelSpec) -> Any:
    from strategies.inputs.step_spec import StepSpec
    from strategies.train.rank_slice import build_slice

    kind = job.target.kind
    spec = StepSpec(model=model, workload=job.workload, strategy=job.strategy, kernel=job.kernel, platform=kind)  # type: ignore[arg-type]
    return build_slice(spec)
