"""Time the whole step on the devices at hand, inside a worker."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.measure.workers.gang import agreed


@dataclass(frozen=True)
class Sampling:
    """When a series of whole steps is long enough.

    A series ends after ``least`` steps where they repeat within ``spread_ratio``. ``enough_s`` ends a series that does not
    settle, and ``most_s`` a series whose steps are so long that even ``least`` of them would delay every other job.
    """

    warmup: int = 1
    """The first step fills caches and pools; a slow second step cannot move the median of three."""
    least: int = 3
    most: int = 20
    spread_ratio: float = 0.01
    enough_s: float = 5.0
    most_s: float = 20.0

    def done(self, samples: Sequence[float]) -> bool:
        """Whether ``samples`` [s] are enough."""
        if len(samples) >= self.most:
            return True
        if len(samples) < self.least:
            return len(samples) > 1 and sum(samples) > self.most_s
        return sum(samples) > self.enough_s or spread(samples) <= self.spread_ratio


SAMPLING = Sampling()


def spread(samples: Sequence[float]) -> float:
    """(largest - smallest) / median of ``samples`` [s]; a ratio."""
    return (max(samples) - min(samples)) / statistics.median(samples)


def time_step(step: Any, sampling: Sampling = SAMPLING, *, options: Mapping[str, str | bool] | None = None) -> dict[str, Any]:
    """Warm up, then sample whole steps, each waited for; the median counts. ``options`` are the compiler's.

    Where several processes run the step together, the first one's clock ends the series.

    Returns
    -------
    dict
        ``device``, ``step_s`` [s], ``warmup`` and ``samples`` [s], ``spread_ratio``, ``loss``, ``peak_bytes`` of the
        fullest device's allocator (None where the backend keeps no count, as a host's does not); ``error``
        where the loss is not finite. A rollout has no loss.
    """
    import jax

    state, batch = step.init(jax.random.key(0)), step.example_batch(jax.random.key(1))
    jax.block_until_ready((state, batch))
    run = step.jitted.lower(state, batch).compile(compiler_options=dict(options)) if options else step.jitted
    warmup: list[float] = []
    samples: list[float] = []
    metrics: Any = None
    while not agreed(bool(samples) and sampling.done(samples)):
        start = time.perf_counter()
        state, metrics = run(state, batch)
        jax.block_until_ready((state, metrics))
        seconds = time.perf_counter() - start
        (warmup if len(warmup) < sampling.warmup else samples).append(seconds)
    loss = float(metrics.loss) if hasattr(metrics, "loss") else None
    facts: dict[str, Any] = {
        "device": device_words(),
        "step_s": statistics.median(samples),
        "warmup": warmup,
        "samples": samples,
        "spread_ratio": spread(samples),
        "loss": loss if loss is not None and math.isfinite(loss) else None,
        "peak_bytes": peak_bytes(jax.local_devices()),
    }
    if loss is not None and not math.isfinite(loss):
        facts["error"] = f"the loss is {loss} after {len(samples) + len(warmup)} steps"
    return facts


def peak_bytes(devices: Sequence[Any]) -> int | None:
    """The largest peak of the devices' allocators [bytes]; None where a backend keeps none."""
    stats = [device.memory_stats() or {} for device in devices]
    peaks = [int(one["peak_bytes_in_use"]) for one in stats if "peak_bytes_in_use" in one]
    return max(peaks, default=None)


def device_words() -> str:
    """The timed devices: count and kind, and for host devices the processor that they share."""
    import jax

    devices = jax.devices()
    name = devices[0].device_kind
    if devices[0].platform == "cpu":
        from planner.measure.targets.host import host_name

        name = f"cpu ({host_name()})"
    processes = f" in {jax.process_count()} processes" if jax.process_count() > 1 else ""
    return f"{len(devices)} x {name}{processes}"
