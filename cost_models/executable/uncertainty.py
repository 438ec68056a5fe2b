"""How far a time that is estimated from an executable may be off: as the published rows of steps of XLA programs."""

from __future__ import annotations

from collections.abc import Mapping

from cost_models.executable.schedule import NAMES
from cost_models.rates.published import rates_name
from cost_models.uncertainty.errors import HalfWidth, published_half_width
from cost_models.uncertainty.kind import LARGE_SHARE, Kind, PredictionFacts, shares
from lcplan.spec.hardware import HardwareSpec

PARTS = {NAMES["product"]: "gemm", NAMES["attention"]: "attention", NAMES["memory"]: "hbm", NAMES["host"]: "overhead"}
"""The cost model's part of each of a schedule's."""


def execution_half_width(parts: Mapping[str, float], hardware: HardwareSpec) -> HalfWidth:
    """Return the half-width of a step's time with these parts.

    Parameters
    ----------
    parts : Mapping
        Time by part [s per step]; those of communication begin with that word.
    hardware : HardwareSpec
        Machine, whose rates the time rests on.

    Returns
    -------
    HalfWidth
        Ratio, with its basis [ratio].

    Notes
    -----
    The same rates price the cost model's own step, whose errors these are. Source: ``cost_models.uncertainty.errors``.
    """
    named: dict[str, float] = {}
    for part, seconds in parts.items():
        name = PARTS.get(part, part.replace("communication over ", "comm_"))
        named[name] = named.get(name, 0.0) + seconds
    kind = Kind("time", "xla", "communication" if _waits(parts) > LARGE_SHARE else "compute")
    return published_half_width(PredictionFacts(kind, rates_name(hardware), shares(named), sum(parts.values())))


def _waits(parts: Mapping[str, float]) -> float:
    """Share of communication that nothing hides."""
    waits = sum(seconds for name, seconds in parts.items() if name.startswith("communication"))
    return waits / (sum(parts.values()) or 1.0)
