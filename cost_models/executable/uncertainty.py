"""How far a time that is estimated from an executable may be off: as the published rows of steps of XLA programs."""

from __future__ import annotations

from collections.abc import Mapping

from cost_models.rates.published import rates_name, rates_of
from cost_models.uncertainty.errors import HalfWidth, published_half_width
from cost_models.uncertainty.kind import LARGE_SHARE, Kind, RestsOn
from lcplan.spec.hardware import HardwareSpec


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
    whole = sum(parts.values())
    waits = sum(seconds for name, seconds in parts.items() if name.startswith("communication"))
    kind = Kind("time", "xla", "communication" if whole and waits / whole > LARGE_SHARE else "compute")
    return published_half_width(kind, RestsOn("xla", False, rates_name(hardware), rates_of(hardware).gemm.measured))
