"""Time one part on the devices at hand, inside a worker."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from planner.measure.timing.probes import timed
from planner.measure.timing.time_full import device_words, spread


def time_part(built: Any, *, options: Mapping[str, str | bool]) -> dict[str, Any]:
    """Return ``step_s``, the median of ``samples`` [s per call], ``spread_ratio`` and ``device``."""
    import jax

    operands = built.example_arguments(jax.random.key(0))
    run = built.jitted.lower(*operands).compile(compiler_options=dict(options) or None)
    samples = timed(run, *operands)["samples"]
    return {
        "device": device_words(),
        "step_s": statistics.median(samples),
        "samples": samples,
        "spread_ratio": spread(samples),
    }
