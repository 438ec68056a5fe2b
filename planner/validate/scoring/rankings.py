"""Rankings: of rows that differ in how the sequence is split, was the scheme that measured best also predicted best?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from planner.validate.scoring.row_result import RowResult
from planner.validate.sources.table import Quantity, Row

CLOSE = 1.05
"""Predicted time of the scheme that measured best, over the best predicted one: up to this it counts as first."""
BAR_TABLES: dict[str, int] = {
    "ring-flash-attention": 1,
    "distflashattn": 1,
    "burstengine-a800": 1,
    "usp-long-context-attention": 128,
}
"""Tables whose comparisons must be right in nine of ten, with the fewest features a head: most of USP's rows have 32, which no
model has and which leave a device waiting for its host."""
SPEEDS: tuple[Quantity, ...] = ("step_s", "tokens_per_s_per_device", "tflop_per_s_per_device")


@dataclass(frozen=True)
class Comparison:
    """Rows of one model, machine, length, part and remat: time of each scheme's best row over the best scheme's.

    Rows that split only heads and features are the scheme ``tensor``.
    """

    quantity: Quantity
    rows: tuple[str, ...]
    measured: dict[str, float]
    predicted: dict[str, float]
    in_bar: bool = False
    """Whether it counts for the required accuracy (``BAR_TABLES``)."""

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
        return {**vars(self), "rows": list(self.rows), "over": "scheme", "best": self.best, "right": self.right}


def in_bar(table: str, row: Row) -> bool:
    """Whether the comparison that ``row`` of ``table`` is in counts for the bar."""
    fewest = BAR_TABLES.get(table)
    stated = row.model.get("head_dim") if isinstance(row.model, dict) else None
    return fewest is not None and (fewest == 1 or (stated or 0) >= fewest)


def comparisons(rows: Iterable[tuple[Row, RowResult]], table: str = "") -> tuple[Comparison, ...]:
    """Every group of modelled rows that has two schemes or more; the first of ``SPEEDS`` that all of it measured."""
    counted: dict[str, bool] = {}
    groups: dict[tuple[str, Quantity], list[tuple[str, RowResult]]] = defaultdict(list)
    for row, result in rows:
        scheme = _scheme(row)
        quantity = next((name for name in SPEEDS if name in result.error_ratio), None)
        if scheme is not None and quantity is not None:
            alike = repr((row.model, row.hardware, row.devices, row.workload, row.strategy.remat))
            groups[(alike, quantity)].append((scheme, result))
            counted[alike] = in_bar(table, row)
    return tuple(
        replace(_compare(quantity, members), in_bar=counted[alike])
        for (alike, quantity), members in groups.items()
        if len({name for name, _ in members}) > 1
    )


def _scheme(row: Row) -> str | None:
    mesh = row.strategy.mesh
    if (mesh.context or 1) > 1:
        return row.strategy.scheme
    return "tensor" if (mesh.tensor or 1) > 1 else None


def _compare(quantity: Quantity, members: list[tuple[str, RowResult]]) -> Comparison:
    sides = {side: relative_times(quantity, members, side=side) for side in ("measured", "predicted")}
    return Comparison(quantity, tuple(result.id for _, result in members), sides["measured"], sides["predicted"])


def relative_times(quantity: Quantity, members: list[tuple[str, RowResult]], *, side: str) -> dict[str, float]:
    """Time of the best row of each name on one side, over the best of all; a name is that of a scheme or a layout."""
    times: dict[str, float] = {}
    for name, result in members:
        value = float((result.measured if side == "measured" else result.predicted)[quantity])
        time = value if quantity == "step_s" else 1.0 / value
        times[name] = min(time, times.get(name, time))
    best = min(times.values())
    return {name: time / best for name, time in times.items()}
