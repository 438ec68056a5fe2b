"""Basis: which seconds of a step rest on rates that were measured on this kind of device, and which on a fallback."""

from __future__ import annotations

from dataclasses import dataclass

from cost_models.parts.find import TIME
from planner.candidates.candidate import Candidate
from planner.explain.traffic import Transfer


@dataclass(frozen=True)
class PartBasis:
    """One time part, whether all of its rates were measured, and where each comes from."""

    part: str
    seconds: float
    measured: bool
    rates: tuple[tuple[str, str], ...]


def part_bases(candidate: Candidate, moved: tuple[Transfer, ...]) -> tuple[PartBasis, ...]:
    """The basis of every time part that takes any time, most seconds first."""
    basis: dict[str, str] = candidate.estimate.get("basis", {})
    found = []
    for part, seconds in candidate.estimate["time_s"].items():
        if seconds <= 0:
            continue
        rates_of_part = TIME[part].rates if part in TIME else ()
        names = rates_of_part or tuple(sorted({transfer.op for transfer in moved if transfer.part == part}))
        rates = tuple((name, basis[name]) for name in names if name in basis)
        measured = bool(rates) and all(source.startswith("measured") for _, source in rates)
        found.append(PartBasis(part, seconds, measured, rates))
    return tuple(sorted(found, key=lambda one: -one.seconds))


def measured_share(bases: tuple[PartBasis, ...]) -> float:
    """Share of the modelled step whose rates were all measured on this kind of device."""
    whole = sum(one.seconds for one in bases)
    return sum(one.seconds for one in bases if one.measured) / whole if whole else 0.0
