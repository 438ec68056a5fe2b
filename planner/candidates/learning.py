"""Learnt: corrections of a candidate's time from compiles and timings. The estimate itself stays unchanged.

A compile shows the collectives that a step really makes: communication is taken in proportion to their time. Timings teach how
far the cost model's computation and communication are off on this device; untimed candidates are ranked by both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cost_models.collectives.listed_collectives import listed_seconds
from cost_models.collectives.step import collectives
from cost_models.inputs.setting import Setting
from cost_models.parts.time import communication_seconds

if TYPE_CHECKING:
    from planner.candidates.candidate import Candidate

TRUST = 0.1
"""Weight of the cost model's own scales, which are 1, against the relative error of one timing, which is 1."""


@dataclass(frozen=True)
class Learnt:
    """``communication_as_compiled``: time of the compiled collectives over that of the modelled ones. The scales multiply
    computation and communication; ``timings`` is how many candidates taught them, 0 where they are 1."""

    communication_as_compiled: float = 1.0
    computation_scale: float = 1.0
    communication_scale: float = 1.0
    timings: int = 0

    def step_s(self, estimate: dict[str, Any]) -> float:
        """The estimate's step, its terms rescaled [s]."""
        computation, communication = _split(estimate)
        return computation * self.computation_scale + communication * self.communication_as_compiled * self.communication_scale

    def to_json(self) -> dict[str, float | int]:
        """Return the entries of the document ``CANDIDATE``."""
        return dict(vars(self))


def _split(estimate: dict[str, Any]) -> tuple[float, float]:
    """Seconds of computation and of communication."""
    communication = sum(communication_seconds(estimate["time_s"]).values())
    return float(estimate["step_s"]) - communication, communication


def learn_from_compile(setting: Setting, candidate: Candidate) -> Candidate:
    """The candidate with its communication as the target's own compiler made it; unchanged after any other compile."""
    compiled = candidate.compiled
    if candidate.strategy.sampling is not None:  # the collectives of a rollout are priced part by part, not listed
        return candidate
    if compiled is None or compiled.rung != "compiled:target" or compiled.error or not compiled.collectives:
        return candidate
    modelled = listed_seconds(setting, candidate.strategy, collectives(setting, candidate.strategy))
    if modelled <= 0:
        return candidate
    ratio = listed_seconds(setting, candidate.strategy, compiled.collectives) / modelled
    return replace(candidate, learnt=replace(candidate.learnt or Learnt(), communication_as_compiled=ratio))


def learn_from_timings(candidates: Sequence[Candidate]) -> list[Candidate]:
    """All candidates, with the scales that those timed in full teach.

    Least squares of relative errors, drawn towards 1: ``sum ((a C + b M) / T - 1)^2 + w ((a - 1)^2 + (b - 1)^2)``. With one
    device's slice, or with no timing, nothing is learnt.
    """
    rows = []
    for candidate in candidates:
        timed = candidate.timed
        if timed is not None and timed.rung == "timed:full" and timed.step_s:
            computation, communication = _split(candidate.estimate)
            as_compiled = candidate.learnt.communication_as_compiled if candidate.learnt else 1.0
            rows.append((computation / timed.step_s, communication * as_compiled / timed.step_s))
    if not rows:
        return list(candidates)
    shares = np.array(rows)
    normal = shares.T @ shares + TRUST * np.eye(2)
    scales = [max(float(scale), 0.0) for scale in np.linalg.solve(normal, shares.sum(axis=0) + TRUST)]

    def taught(before: Learnt) -> Learnt:
        return replace(before, computation_scale=scales[0], communication_scale=scales[1], timings=len(rows))

    return [replace(candidate, learnt=taught(candidate.learnt or Learnt())) for candidate in candidates]
