"""Time the whole step on the devices at hand, inside a worker."""

from __future__ import annotations

import math
import statistics
import time
from typing import Any

WARMUP_STEPS = 1
"""The first step compiles. What the second still fills (caches, pools) cannot move the median of three."""
MIN_SAMPLES = 3
MAX_SAMPLES = 20
ENOUGH_S = 5.0
"""Sampling stops after this many seconds, once there are ``MIN_SAMPLES``."""


def time_step(step: Any) -> dict[str, Any]:
    """Warm up, then sample whole steps, each waited for; the median counts.

    Returns
    -------
    dict
        ``device``, ``step_s`` [s], ``samples`` [s]; ``error`` where the loss is not finite.
    """
    import jax

    state, batch = step.init(jax.random.key(0)), step.example_batch(jax.random.key(1))
    jax.block_until_ready((state, batch))
    samples: list[float] = []
    metrics: Any = None
    begun = time.perf_counter()
    for number in range(WARMUP_STEPS + MAX_SAMPLES):
        start = time.perf_counter()
        state, metrics = step.jitted(state, batch)
        jax.block_until_ready((state, metrics))
        end = time.perf_counter()
        if number < WARMUP_STEPS:
            begun = end
            continue
        samples.append(end - start)
        if len(samples) >= MIN_SAMPLES and end - begun > ENOUGH_S:
            break
    loss = float(metrics.loss)
    facts: dict[str, Any] = {"device": _device(), "step_s": statistics.median(samples), "samples": samples}
    if not math.isfinite(loss):
        facts["error"] = f"the loss is {loss} after {len(samples) + WARMUP_STEPS} steps"
    return facts


def _device() -> str:
    """What was timed: count and kind of the devices, and for host devices the processor that they share."""
    import jax

    devices = jax.devices()
    name = devices[0].device_kind
    if devices[0].platform == "cpu":
        from planner.measure.host import host_name

        name = f"cpu ({host_name()})"
    return f"{len(devices)} x {name}"
