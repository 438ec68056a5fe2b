"""Ranking: candidates best first, by objective and evidence, with ties settled."""

from __future__ import annotations

from planner.candidates.candidate import Candidate
from planner.candidates.ties import Choice, settle


def objective_value(candidate: Candidate, objective: str) -> float:
    """The number that the objective maximizes: tokens/s, tokens/s per device, or the negative step [s]."""
    best = candidate.best
    if objective == "step_s":
        return -best.step_s
    return best.tokens_per_s / (candidate.strategy.devices if objective == "tokens_per_s_per_device" else 1)


def rank(candidates: list[Candidate], objective: str) -> list[Candidate]:
    """Sort best first: candidates that fit by objective, then candidates that do not, failed compiles last.

    Timed candidates precede untimed ones: measured and modelled seconds are not comparable. The first is the preferred one of
    the candidates that tie with the best.
    """

    def key(candidate: Candidate) -> tuple[bool, bool, bool, float, int, int]:
        best = candidate.best
        value = objective_value(candidate, objective)
        return (
            not candidate.usable,
            not best.fits,
            candidate.timed is None,
            -value,
            candidate.strategy.devices,
            best.memory_bytes,
        )

    ordered = sorted(candidates, key=key)
    return [*choose(ordered, objective).ordered, *ordered[_first_tier(ordered) :]]


def ties(ordered: list[Candidate], objective: str) -> tuple[Candidate, ...]:
    """Candidates of a ranking that tie with its first, the fastest first; empty if the first does not fit."""
    fastest = sorted(ordered[: _first_tier(ordered)], key=lambda one: -objective_value(one, objective))
    chosen = choose(fastest, objective)
    return chosen.ties


def choose(ordered: list[Candidate], objective: str) -> Choice:
    """The first tier of a ranking (candidates that fit, timed like the first), with the preferred one of a tie in front."""
    return settle(ordered[: _first_tier(ordered)], per_device=objective == "tokens_per_s_per_device")


def _first_tier(ordered: list[Candidate]) -> int:
    """How many candidates fit and are timed like the first; 0 where the first does not fit."""
    if not ordered or not ordered[0].best.fits:
        return 0
    alike = [one.best.fits and (one.timed is None) == (ordered[0].timed is None) for one in ordered]
    return alike.index(False) if False in alike else len(alike)
