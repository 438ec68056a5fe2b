"""The result of validating one table: rows, pairs, summaries, and everything that was fitted on it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from planner.validate.scoring.meshes import MeshOrder, mesh_orders
from planner.validate.scoring.rankings import Comparison, comparisons
from planner.validate.scoring.row_result import RowResult
from planner.validate.scoring.score import Summary
from planner.validate.sources.specs import trainer_of
from planner.validate.sources.table import PublishedTable, Quantity


@dataclass(frozen=True)
class PairResult:
    """A ratio of two rows: of the first to the second."""

    a: str
    b: str
    quantity: Quantity
    measured_ratio: float
    predicted_ratio: float | None

    def to_json(self) -> dict[str, Any]:
        """The entry of ``pairs``, as in DESIGN."""
        return dict(vars(self))


@dataclass(frozen=True)
class FittedOn:
    """One freedom that was used to fit this table: a constant of the cost model, or a choice for an open field."""

    name: str
    value: float | str
    unit: str
    kind: str

    def to_json(self) -> dict[str, Any]:
        """The entry of ``fitted_constants``, as in DESIGN."""
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

    @property
    def rankings(self) -> tuple[Comparison, ...]:
        """Comparisons of schemes among its rows."""
        found = {row.id: row for row in self.rows}
        return comparisons(((row, found[row.id]) for row in self.table.rows), self.table.name)

    @property
    def mesh_orders(self) -> tuple[MeshOrder, ...]:
        """Order of the meshes and schemes among its rows."""
        found = {row.id: row for row in self.rows}
        return mesh_orders(((row, found[row.id]) for row in self.table.rows), self.table.noise_ratio)

    def to_json(self) -> dict[str, Any]:
        """The entry of ``tables``, as in DESIGN."""
        return {
            "name": self.table.name,
            "source": self.table.source.model_dump(mode="json"),
            "unstated_program": trainer_of(self.table.source),
            "flop_convention": self.table.flop_convention,
            "noise_ratio": self.table.noise_ratio,
            "rows": [row.to_json(self.table.name) for row in self.rows],
            "not_modelled": self.excuses,
            "pairs": [pair.to_json() for pair in self.pairs],
            "rankings": [*(one.to_json() for one in self.rankings), *(one.to_json() for one in self.mesh_orders)],
            "summary": {name: entry.to_json() for name, entry in self.summary.items()},
            "fitted_constants": [entry.to_json() for entry in self.fitted],
        }
