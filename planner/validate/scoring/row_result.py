"""What validating gave for one row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from planner.validate.predict import Prediction
from planner.validate.scoring.score import BAND
from planner.validate.sources.table import Quantity

Values = dict[Quantity, float | bool]


@dataclass(frozen=True)
class RowResult:
    """One row: predicted beside measured, or why not. ``chosen`` is what the source leaves open."""

    id: str
    measured: Values
    why: str | None = None
    reason: str | None = None
    chosen: dict[str, Any] = field(default_factory=dict)
    predicted: Prediction = field(default_factory=dict)
    error_ratio: dict[Quantity, float] = field(default_factory=dict)
    contradicted_by: str | None = None
    """Of a run that ran out of memory: a row of the same source that needed at least as much and ran."""

    @property
    def status(self) -> str:
        """``modelled`` or ``not modelled``."""
        return "modelled" if self.why is None else "not modelled"

    @property
    def verdict(self) -> str | None:
        """Of three: within ``BAND`` of the budget it is too close to call."""
        need = self.predicted.get("budget_ratio")
        if need is None:
            return None
        return "too close to call" if abs(need - 1.0) <= BAND else ("fits" if need < 1.0 else "out of memory")

    def to_json(self) -> dict[str, Any]:
        """As in DESIGN: an entry of ``rows``."""
        return {
            "id": self.id,
            "status": self.status,
            "why": self.why,
            "chosen": self.chosen,
            "measured": self.measured,
            "predicted": self.predicted,
            "error_ratio": self.error_ratio,
            "verdict": self.verdict,
            "contradicted_by": self.contradicted_by,
        }
