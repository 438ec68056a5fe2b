"""What validating one table gave: rows, pairs, summaries, and everything that was fitted on it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from planner.validate.predict import Prediction
from planner.validate.score import Summary
from planner.validate.specs import trainer_of
from planner.validate.table import PublishedTable, Quantity

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


@dataclass(frozen=True)
class PairResult:
    """A ratio of two rows: of the first to the second."""

    a: str
    b: str
    quantity: Quantity
    measured_ratio: float
    predicted_ratio: float | None

    def to_json(self) -> dict[str, Any]:
        """As in DESIGN: an entry of ``pairs``."""
        return dict(vars(self))


@dataclass(frozen=True)
class FittedOn:
    """One freedom that was used to fit this table: a constant of the laws, or a choice for what its source leaves open."""

    name: str
    value: float | str
    unit: str
    kind: str

    def to_json(self) -> dict[str, Any]:
        """As in DESIGN: an entry of ``fitted_constants``."""
        return dict(vars(self))


@dataclass(frozen=True)
class TableResult:
    """One table, validated."""

    table: PublishedTable
    rows: tuple[RowResult, ...]
    pairs: tuple[PairResult, ...]
    summary: dict[Quantity, Summary]
    fitted: tuple[FittedOn, ...]

    @property
    def modelled(self) -> int:
        """Rows that were modelled."""
        return sum(row.why is None for row in self.rows)

    @property
    def excuses(self) -> dict[str, int]:
        """Rows that were not, by reason."""
        return dict(Counter(row.reason for row in self.rows if row.reason is not None))

    def to_json(self) -> dict[str, Any]:
        """As in DESIGN: an entry of ``tables``."""
        return {
            "name": self.table.name,
            "source": self.table.source.model_dump(mode="json"),
            "unstated_program": trainer_of(self.table.source),
            "flop_convention": self.table.flop_convention,
            "noise_ratio": self.table.noise_ratio,
            "rows": [row.to_json() for row in self.rows],
            "not_modelled": self.excuses,
            "pairs": [pair.to_json() for pair in self.pairs],
            "summary": {name: entry.to_json() for name, entry in self.summary.items()},
            "fitted_constants": [entry.to_json() for entry in self.fitted],
        }
