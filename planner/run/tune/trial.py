"""TunedTrial: one trial of the tuner, how far it got, and its outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from lcplan.strategy import Strategy
from planner.candidates.candidate import Candidate

Outcome = Literal["improved", "kept", "pruned", "rejected", "failed"]


@dataclass(frozen=True)
class TunedTrial:
    """``improved``: faster than all before it; ``kept``: on no better; ``pruned``: not worth the next fidelity."""

    number: int
    strategy: Strategy
    rung: str
    """The highest that it reached; ``rules`` where it broke one."""
    outcome: Outcome
    says: str
    candidate: Candidate | None = None

    @property
    def label(self) -> str:
        """The strategy's, with the loss chunk, which is tuned too."""
        return f"{self.strategy.label} loss_chunk_tokens={self.strategy.loss_chunk_tokens}"

    def to_json(self) -> dict[str, Any]:
        """Return the row of ``result.json``: the study's own history."""
        step_s = self.candidate.best.step_s if self.candidate else None
        kept = {"number": self.number, "strategy": self.label, "rung": self.rung, "outcome": self.outcome}
        return kept | {"step_s": step_s, "says": self.says}
