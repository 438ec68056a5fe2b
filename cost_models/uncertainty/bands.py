"""Bands: the lowest and the highest value of an estimate's step time and memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cost_models.uncertainty.errors import published_half_width
from cost_models.uncertainty.kind import RestsOn


def bands(rests: RestsOn, *, time_s: Mapping[str, float], memory_bytes: Mapping[str, float]) -> dict[str, Any]:
    """Return the fields of an ``estimate`` object that state its uncertainty.

    Parameters
    ----------
    rests : RestsOn
        Program and rates of the estimate.
    time_s : Mapping
        Parts of the step's time [s].
    memory_bytes : Mapping
        Parts of the executable's memory [bytes].

    Returns
    -------
    dict
        ``step_s_low``, ``step_s_high`` [s], ``memory_bytes_low``, ``memory_bytes_high`` [bytes], and ``uncertainty`` with the
        half-width of each as a ratio and its basis [ratio].

    Notes
    -----
    Source: ``cost_models.uncertainty.errors.PublishedErrors``.
    """
    step_s, total_bytes = sum(time_s.values()), sum(memory_bytes.values())
    time, memory = published_half_width(rests.time(time_s)), published_half_width(rests.memory(memory_bytes))
    return {
        "step_s_low": step_s / (1.0 + time.ratio),
        "step_s_high": step_s * (1.0 + time.ratio),
        "memory_bytes_low": round(total_bytes / (1.0 + memory.ratio)),
        "memory_bytes_high": round(total_bytes * (1.0 + memory.ratio)),
        "uncertainty": {
            "time_ratio": time.ratio,
            "time_basis": time.basis,
            "memory_ratio": memory.ratio,
            "memory_basis": memory.basis,
        },
    }
