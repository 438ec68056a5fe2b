"""Candidates as flat rows, one column a figure, for CSV and data frames."""

from __future__ import annotations

from typing import Any

from lcplan.strategy import AXES
from planner.candidates.candidate import Candidate


def flat_row(candidate: Candidate) -> dict[str, Any]:
    """One candidate; units end the names, ``rung`` is that of ``best``."""
    strategy, estimate, best = candidate.strategy, candidate.estimate, candidate.best
    knobs = strategy.model_dump(mode="json", exclude={"mesh", "axis_order"})
    return {
        "devices": strategy.devices,
        **dict(zip(AXES, strategy.mesh.sizes, strict=True)),
        **knobs,
        "rung": best.rung,
        "fits": best.fits,
        "step_s": best.step_s,
        "step_s_low": best.step_s / (1.0 + best.time_ratio),
        "step_s_high": best.step_s * (1.0 + best.time_ratio),
        "tokens_per_s": best.tokens_per_s,
        "memory_bytes": best.memory_bytes,
        "memory_bytes_low": best.memory_bytes / (1.0 + best.memory_ratio),
        "memory_bytes_high": best.memory_bytes * (1.0 + best.memory_ratio),
        "modelled_step_s": estimate["step_s"],
        "modelled_memory_bytes": estimate["memory_bytes"]["total"],
        "allowance_bytes": estimate["allowance_bytes"],
        "tflop_per_s_per_device": estimate["tflop_per_s_per_device"],
        "mfu_ratio": estimate["mfu_ratio"],
        "error": candidate.compiled.error if candidate.compiled else None,
    }
