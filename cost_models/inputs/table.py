"""StrategyTable: many strategies as columns, so that a cost model is a few numpy operations and never a loop over rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass, fields
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from lcplan.formats.errors import BadInputError
from lcplan.strategy import (
    AXES,
    AXIS_ORDERS,
    SCHEME_FACTS,
    STEP_KNOBS,
    AxisName,
    Backend,
    CollectiveMatmul,
    Dtype,
    Mesh,
    Scheme,
    SchemeFacts,
    Strategy,
)
from lcplan.strategy.remat import RematName

Ints = NDArray[np.int64]
Codes = NDArray[np.int8]
Made = TypeVar("Made")

REMATS: tuple[RematName, ...] = get_args(RematName)
DTYPES: tuple[Dtype, ...] = get_args(Dtype)
ORDERS: tuple[tuple[AxisName, ...], ...] = AXIS_ORDERS
SCHEME_CODES: tuple[Scheme, ...] = get_args(Scheme)
BACKEND_CODES: tuple[Backend, ...] = get_args(Backend)
MATMUL_CODES: tuple[CollectiveMatmul, ...] = get_args(CollectiveMatmul)

CODES: dict[str, tuple[object, ...]] = {
    **{name: knob.values for name, knob in STEP_KNOBS.items() if knob.values},
    "axis_order": AXIS_ORDERS,
}
"""Values of each code column, by integer: ``CODES["scheme"][table.scheme[i]]``."""
SIZES = tuple(name for name, knob in STEP_KNOBS.items() if knob.is_number)
"""Columns of knobs that are whole numbers; these, ``CODES`` and the mesh are all columns."""


def _with_columns(cls: type[Made]) -> type[Made]:
    """Declare a column for each axis and each knob."""
    cls.__annotations__ = {**dict.fromkeys((*AXES, *SIZES), Ints), **dict.fromkeys(CODES, Codes)}
    return dataclass(frozen=True)(cls)


def default_columns(rows: int) -> dict[str, NDArray[np.integer]]:
    """Return a column for every knob at its default, shape ``[rows]``, for knobs that nobody chose; read-only."""
    plain = Strategy(mesh=Mesh())
    columns: dict[str, NDArray[np.integer]] = {name: np.broadcast_to(np.int64(getattr(plain, name)), rows) for name in SIZES}
    return columns | {name: np.broadcast_to(np.int8(known.index(getattr(plain, name))), rows) for name, known in CODES.items()}


@_with_columns
class StrategyTable:
    """``n`` strategies as columns of shape ``[n]``, one for each axis of the mesh and each knob.

    Sizes are int64, choices are int8 codes into ``CODES``. No cost model reads ``sharding_mode`` or ``scheduler``: all price
    the ``manual`` step of docs/step.md under XLA's default flags.
    """

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

        def __init__(self, **columns: NDArray[Any]) -> None: ...

        def __getattr__(self, name: str) -> NDArray[Any]: ...

    def __post_init__(self) -> None:
        shapes = {getattr(self, field.name).shape for field in fields(self)}
        assert len(shapes) == 1, f"columns of different shapes: {shapes}"
        assert len(self.data.shape) == 1, f"columns are one-dimensional, not {self.data.shape}"

    def __len__(self) -> int:
        return int(self.data.shape[0])

    @cached_property
    def devices(self) -> Ints:
        """Devices that each strategy's mesh takes, shape ``[n]``."""
        product: Ints = prod(getattr(self, axis) for axis in AXES)
        return product

    def take(self, indices: NDArray[np.integer] | NDArray[np.bool_] | slice) -> StrategyTable:
        """Return the rows that ``indices`` (integers, a boolean mask of ``n``, or a slice) selects, in that order."""
        return StrategyTable(**{field.name: getattr(self, field.name)[indices] for field in fields(self)})

    def strategy(self, i: int) -> Strategy:
        """Return row ``i`` as a ``Strategy``."""
        chosen = {name: CODES[name][int(getattr(self, name)[i])] for name in CODES}
        sizes = {name: int(getattr(self, name)[i]) for name in SIZES}
        mesh = Mesh(**{axis: int(getattr(self, axis)[i]) for axis in AXES})
        return Strategy.model_validate({"mesh": mesh, **sizes, **chosen})

    def scheme_has(self, fact: Callable[[SchemeFacts], bool]) -> NDArray[np.bool_]:
        """Return the rows with more than one context rank whose scheme has a fact."""
        having = np.array([fact(SCHEME_FACTS[name]) for name in SCHEME_CODES])
        return np.asarray(having[self.scheme] & (self.context > 1))

    @classmethod
    def from_strategies(cls, strategies: Sequence[Strategy]) -> Self:
        """Return a table with one row per strategy.

        Raises
        ------
        BadInputError
            A strategy's axis order is not one of ``lcplan.strategy.AXIS_ORDERS``.
        """
        foreign = {s.axis_order for s in strategies if s.axis_order not in AXIS_ORDERS}
        if foreign:
            known = "; ".join(",".join(order) for order in AXIS_ORDERS)
            raise BadInputError(
                [f"axis_order={','.join(order)} has no cost model; use one of: {known}" for order in sorted(foreign)]
            )
        columns: dict[str, NDArray[np.integer]] = {
            axis: np.array([getattr(s.mesh, axis) for s in strategies], dtype=np.int64) for axis in AXES
        }
        columns |= {name: np.array([getattr(s, name) for s in strategies], dtype=np.int64) for name in SIZES}
        columns |= {
            name: np.array([codes.index(getattr(s, name)) for s in strategies], dtype=np.int8) for name, codes in CODES.items()
        }
        return cls(**columns)

    @classmethod
    def concatenate(cls, tables: Sequence[StrategyTable]) -> Self:
        """Return the rows of all tables, in order."""
        return cls(**{field.name: np.concatenate([getattr(table, field.name) for table in tables]) for field in fields(cls)})
