"""The collectives of one sharded product, derived from the shardings of its operands and its result."""

from __future__ import annotations

from typing import Literal, NamedTuple

from lcplan.formats.errors import BadInputError
from lcplan.parts.placed import Placed
from lcplan.spec.collective import Op
from lcplan.strategy import AXES, AxisName, Mesh

Moved = Literal["rows", "inner", "weight", "result"]


class Product(NamedTuple):
    """``A[B D] W[D F] -> Out[B F]``."""

    left: Placed
    right: Placed
    result: Placed


class Move(NamedTuple):
    """One collective of a product over one axis.

    ``rows`` and ``inner`` gather dim B or D of the left operand, ``weight`` gathers D of the right one. ``result`` sums: a
    reduce-scatter along ``dim``, or an all-reduce.
    """

    op: Op
    axis: AxisName
    moved: Moved
    dim: str


def moves(product: Product, mesh: Mesh) -> tuple[Move, ...]:
    """Return the collectives of ``product``; axes of size 1 have no collective.

    Raises
    ------
    BadInputError
        An axis is split in a way that needs a collective after the product that is no sum.
    """
    used = {axis for placed in product for axes in placed.axes for axis in axes}
    larger = [axis for axis in AXES if getattr(mesh, axis) > 1 and axis in used]
    return tuple(move for axis in larger for move in _over(axis, product))


def _over(axis: AxisName, product: Product) -> tuple[Move, ...]:
    left, right, result = (placed.dim_over(axis) for placed in product)
    if left == right == "D":
        return (Move("all-reduce" if result is None else "reduce-scatter", axis, "result", result or "B"),)
    if result is not None and result not in (left if left == "B" else None, right if right == "F" else None):
        raise BadInputError(f"--sharding: {axis} splits {result} of the result and of no operand; {_WAYS}")
    if right == "F" and result != "F":
        raise BadInputError(f"--sharding: {axis} splits F of the weight and not of the result; {_WAYS}")
    gathered: dict[Moved, bool] = {"rows": left == "B" and result != "B", "inner": left == "D", "weight": right == "D"}
    found: list[Moved] = [moved for moved, missing in gathered.items() if missing]
    return tuple(Move("all-gather", axis, moved, "B" if moved == "rows" else "D") for moved in found)


_WAYS = "split B or F of an operand and of the result alike, or D of both operands"
