"""Rankings: of rows that differ in how the sequence is split, was the scheme that measured best also predicted best?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from planner.validate.row_result import RowResult
from planner.validate.table import Quantity, Row

CLOSE = 1.05
"""Predicted time of the scheme that measured best, over the best predicted one: up to this it counts as first."""
SPEEDS: tuple[Quantity, ...] = ("step_s", "tokens_per_s_per_device", "tflop_per_s_per_device")


@dataclass(frozen=True)
class Comparison:
    """Rows of one model, machine, length, part and remat: time of each scheme's best row over the best scheme's.

    Rows that split heads and features alone are the scheme ``tensor``.
    """

    quantity: Quantity
    rows: tuple[str, ...]
    measured: dict[str, float]
    predicted: dict[str, float]

    @property
    def best(self) -> str:
        """The scheme that measured best."""
        return min(self.measured, key=self.measured.__getitem__)

    @property
    def right(self) -> bool:
        """Whether that one is predicted first, or within 5 % of first."""
        return self.predicted[self.best] <= CLOSE

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**vars(self), "rows": list(self.rows), "best": self.best, "right": self.right}


def comparisons(rows: Iterable[tuple[Row, RowResult]]) -> tuple[Comparison, ...]:
    """Every group of modelled rows that has two schemes or more; the first of ``SPEEDS`` that all of it measured."""
    groups: dict[tuple[str, Quantity], list[tuple[str, RowResult]]] = defaultdict(list)
    for row, result in rows:
        scheme = _scheme(row)
        quantity = next((name for name in SPEEDS if name in result.error_ratio), None)
        if scheme is not None and quantity is not None:
            alike = repr((row.model, row.hardware, row.devices, row.workload, row.strategy.remat))
            groups[(alike, quantity)].append((scheme, result))
    return tuple(
        _compare(quantity, members) for (_, quantity), members in groups.items() if len({name for name, _ in members}) > 1
    )


def _scheme(row: Row) -> str | None:
    mesh = row.strategy.mesh
    if (mesh.context or 1) > 1:
        return row.strategy.scheme
    return "tensor" if (mesh.tensor or 1) > 1 else None


def _compare(quantity: Quantity, members: list[tuple[str, RowResult]]) -> Comparison:
    sides = {side: _relative(quantity, members, side=side) for side in ("measured", "predicted")}
    return Comparison(quantity, tuple(result.id for _, result in members), sides["measured"], sides["predicted"])


def _relative(quantity: Quantity, members: list[tuple[str, RowResult]], *, side: str) -> dict[str, float]:
    """Time of each scheme's best row on one side, over the best of all."""
    times: dict[str, float] = {}
    for scheme, result in members:
        value = float((result.measured if side == "measured" else result.predicted)[quantity])
        time = value if quantity == "step_s" else 1.0 / value
        times[scheme] = min(time, times.get(scheme, time))
    best = min(times.values())
    return {scheme: time / best for scheme, time in times.items()}
