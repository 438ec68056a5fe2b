"""What validating gave for one row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from planner.validate.predict import Prediction
from planner.validate.table import Quantity

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

    @property
    def status(self) -> str:
        """``modelled`` or ``not modelled``."""
        return "modelled" if self.why is None else "not modelled"

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
        }
