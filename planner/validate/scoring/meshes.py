"""Order of meshes: of rows that differ in mesh or scheme only, how many pairs are predicted in the order that was measured?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from planner.validate.scoring.rankings import CLOSE, SPEEDS, relative_times
from planner.validate.scoring.row_result import RowResult
from planner.validate.sources.table import Quantity, Row

NOISE = 0.04
"""Difference of measured times below which two layouts have no order, unless the table states its own ``noise_ratio``: runs of
one configuration in releases of NeMo and Megatron-Bridge differ by as much."""


@dataclass(frozen=True)
class MeshOrder:
    """Time over the best, by mesh and scheme, of rows of one model, machine, workload, remat, program and number of devices."""

    quantity: Quantity
    rows: tuple[str, ...]
    measured: dict[str, float]
    predicted: dict[str, float]
    pairs: int
    """Pairs of layouts whose measured times differ by more than noise."""
    pairs_in_order: int
    """Pairs among these that are predicted in the measured order."""
    pairs_right: int
    """The same, or the layout that measured faster is predicted within 5 % of the other one."""

    @property
    def best(self) -> str:
        """The layout that measured best."""
        return min(self.measured, key=self.measured.__getitem__)

    @property
    def right(self) -> bool:
        """Whether every pair is right."""
        return self.pairs == self.pairs_right

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**vars(self), "rows": list(self.rows), "over": "mesh", "best": self.best, "right": self.right}


def mesh_orders(rows: Iterable[tuple[Row, RowResult]], noise_ratio: float | None = None) -> tuple[MeshOrder, ...]:
    """Every group of modelled rows with two layouts or more; the first of ``SPEEDS`` that each row measured."""
    groups: dict[tuple[str, Quantity], list[tuple[str, RowResult]]] = defaultdict(list)
    for row, result in rows:
        quantity = next((name for name in SPEEDS if name in result.error_ratio), None)
        if quantity is not None:
            alike = (row.model, row.hardware, row.devices, row.workload, row.strategy.remat, row.program)
            groups[(repr(alike), quantity)].append((_layout(row), result))
    noise = NOISE if noise_ratio is None else noise_ratio
    found = (_order(quantity, members, noise=noise) for (_, quantity), members in groups.items())
    return tuple(order for order in found if order.pairs)


def _layout(row: Row) -> str:
    """The mesh and, where context splits the sequence, the scheme."""
    mesh = {axis: size for axis, size in row.strategy.mesh.model_dump().items() if (size or 1) > 1}
    words = ",".join(f"{axis}={size}" for axis, size in mesh.items()) or "one device"
    return f"{words} {row.strategy.scheme}" if "context" in mesh and row.strategy.scheme else words


def _order(quantity: Quantity, members: list[tuple[str, RowResult]], *, noise: float) -> MeshOrder:
    measured, predicted = (relative_times(quantity, members, side=side) for side in ("measured", "predicted"))
    apart = [(a, b) for a, b in combinations(measured, 2) if abs(measured[a] / measured[b] - 1.0) > noise]
    ratios = [predicted[a] / predicted[b] if measured[a] < measured[b] else predicted[b] / predicted[a] for a, b in apart]
    ordered, close = (sum(ratio < limit for ratio in ratios) for limit in (1.0, CLOSE))
    return MeshOrder(quantity, tuple(result.id for _, result in members), measured, predicted, len(apart), ordered, close)
