"""Why the winner won, as rows: the other candidates, changed requests, communication, and the rates behind each part."""

from __future__ import annotations

from typing import NamedTuple

from cost_models.parts.find import time_label
from lcplan.formats.units import format_count, format_seconds
from planner.explain.explanation import Explanation
from planner.report.view.labels import short_label


class Other(NamedTuple):
    """A candidate that lost: its labels, its objective against the winner's (empty where unknown), and the reasons."""

    strategy: str
    short: str
    against: str
    why: str


class Moved(NamedTuple):
    """The best strategy of a changed request: empty where nothing fits, ``same`` where it is still the winner."""

    quantity: str
    value: str
    strategy: str
    tokens_per_s: str
    same: bool


class Waited(NamedTuple):
    """Communication of one part: its seconds, and how many of them compute hides."""

    part: str
    transfer: str
    hidden: str
    exposed: str


class Basis(NamedTuple):
    """Seconds of one part, whether they rest on measured rates, and the rates; ``lacking`` are the rates not measured."""

    part: str
    seconds: str
    kind: str
    sources: str
    lacking: str


def others(found: Explanation) -> tuple[Other, ...]:
    """The candidates that lost, best first."""
    return tuple(
        Other(
            one.candidate.strategy.label,
            short_label(one.candidate.strategy),
            "" if one.slower_ratio is None else f"{one.slower_ratio:+.1%}",
            "; ".join(one.says),
        )
        for one in found.others
    )


def moved(found: Explanation) -> tuple[Moved, ...]:
    """The best strategy under each changed request."""
    return tuple(
        Moved(
            shift.quantity,
            shift.label,
            shift.candidate.strategy.label if shift.candidate else "",
            format_count(shift.candidate.best.tokens_per_s) if shift.candidate else "",
            shift.same,
        )
        for shift in found.shifts
    )


def waited(found: Explanation) -> tuple[Waited, ...]:
    """Communication that takes time, part by part."""
    return tuple(
        Waited(time_label(one.part), *(format_seconds(value) for value in (one.transfer_s, one.hidden_s, one.exposed_s)))
        for one in found.exposures
        if one.transfer_s
    )


def bases(found: Explanation) -> tuple[Basis, ...]:
    """The rates behind each part of the step."""
    return tuple(
        Basis(
            time_label(one.part),
            format_seconds(one.seconds),
            "measured" if one.measured else "fallback" if one.rates else "law",
            "; ".join(f"{name}: {source}" for name, source in one.rates),
            "; ".join(f"{name}: {source}" for name, source in one.rates if not source.startswith("measured")),
        )
        for one in found.bases
    )
