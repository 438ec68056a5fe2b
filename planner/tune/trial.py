"""TunedTrial: one thing that the tuner tried, how far it got, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from planner.candidate import Candidate

Outcome = Literal["improved", "kept", "pruned", "rejected", "failed"]


@dataclass(frozen=True)
class TunedTrial:
    """``improved``: faster than all before it; ``kept``: on no better; ``pruned``: not worth the next fidelity."""

    number: int
    label: str
    rung: str
    """The highest that it reached; ``rules`` where it broke one."""
    outcome: Outcome
    says: str
    candidate: Candidate | None = None

    def to_json(self) -> dict[str, Any]:
        """For ``result.json``: the study's own history."""
        step_s = self.candidate.best.step_s if self.candidate else None
        kept = {"number": self.number, "strategy": self.label, "rung": self.rung, "outcome": self.outcome}
        return kept | {"step_s": step_s, "says": self.says}
