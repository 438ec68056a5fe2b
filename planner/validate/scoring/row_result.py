"""The result of validating one row."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log1p
from typing import Any

from cost_models.uncertainty.errors import published_errors
from planner.validate.predict import Prediction
from planner.validate.scoring.kinds import Placed, compared, log_error
from planner.validate.scoring.score import BAND
from planner.validate.sources.table import Quantity

Values = dict[Quantity, float | bool]


@dataclass(frozen=True)
class RowResult:
    """One row: its prediction and measurement, or why it has no prediction. ``chosen`` has the values of open fields."""

    id: str
    measured: Values
    why: str | None = None
    reason: str | None = None
    chosen: dict[str, Any] = field(default_factory=dict)
    predicted: Prediction = field(default_factory=dict)
    error_ratio: dict[Quantity, float] = field(default_factory=dict)
    placed: Placed | None = None
    """The kinds of its prediction, by which errors are compared."""
    contradicted_by: str | None = None
    """A row of the same source that needed at least as much and ran, where this one ran out of memory."""

    @property
    def status(self) -> str:
        """``modelled`` or ``not modelled``."""
        return "modelled" if self.why is None else "not modelled"

    @property
    def verdict(self) -> str | None:
        """The verdict on memory, one of three: within ``BAND`` of the budget it is too close to call."""
        need = self.predicted.get("budget_ratio")
        if need is None:
            return None
        return "too close to call" if abs(need - 1.0) <= BAND else ("fits" if need < 1.0 else "out of memory")

    def half_widths(self, table: str) -> dict[Quantity, float]:
        """The half-width of each compared quantity, from the errors of all bundled rows but this one of ``table``."""
        if self.placed is None:
            return {}
        errors = published_errors()
        return {
            name: errors.half_width(self.placed.about(name), without=(table, self.id)).ratio
            for name, _ in compared(self.error_ratio)
        }

    def to_json(self, table: str = "") -> dict[str, Any]:
        """The entry of ``rows``, as in DESIGN."""
        widths = self.half_widths(table)
        return {
            "id": self.id,
            "status": self.status,
            "why": self.why,
            "chosen": self.chosen,
            "measured": self.measured,
            "predicted": self.predicted,
            "error_ratio": self.error_ratio,
            "half_width_ratio": widths,
            "covered": {name: abs(log_error(name, self.error_ratio[name])) <= log1p(width) for name, width in widths.items()},
            "verdict": self.verdict,
            "contradicted_by": self.contradicted_by,
        }
