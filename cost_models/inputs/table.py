"""StrategyTable: many strategies as columns, so that laws are a few numpy operations and never a loop over rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Self, get_args

import numpy as np
from numpy.typing import NDArray

from lcplan.formats.errors import BadInputError
from lcplan.strategy import (
    AXIS_ORDERS,
    BACKENDS,
    COLLECTIVE_MATMULS,
    MOE_DISPATCHES,
    SCHEDULERS,
    SCHEMES,
    SHARDING_MODES,
    AxisName,
    Backend,
    CollectiveMatmul,
    Dtype,
    Mesh,
    Scheme,
    Strategy,
    Switch,
)
from lcplan.strategy.remat import REMAT_POLICIES, RematName

Ints = NDArray[np.int64]
Codes = NDArray[np.int8]

REMATS: tuple[RematName, ...] = get_args(RematName)
DTYPES: tuple[Dtype, ...] = get_args(Dtype)
SWITCHES: tuple[Switch, ...] = get_args(Switch)
ORDERS: tuple[tuple[AxisName, ...], ...] = AXIS_ORDERS
SCHEME_CODES: tuple[Scheme, ...] = SCHEMES
BACKEND_CODES: tuple[Backend, ...] = BACKENDS
MATMUL_CODES: tuple[CollectiveMatmul, ...] = COLLECTIVE_MATMULS

CODES: dict[str, tuple[object, ...]] = {
    "scheme": SCHEME_CODES,
    "remat": REMATS,
    "backend": BACKEND_CODES,
    "axis_order": ORDERS,
    "collective_matmul": MATMUL_CODES,
    "gather_dtype": DTYPES,
    "reduce_dtype": DTYPES,
    "moments_dtype": DTYPES,
    "sharding_mode": SHARDING_MODES,
    "scheduler": SCHEDULERS,
    "bidirectional": SWITCHES,
    "moe_dispatch": MOE_DISPATCHES,
}
"""What each code column's integers stand for: ``CODES["scheme"][table.scheme[i]]``."""

assert tuple(REMAT_POLICIES) == REMATS

_MESH = ("data", "fsdp", "context", "tensor", "expert")
SIZES = ("microbatches", "loss_chunk_tokens", "ulysses", "attention_block", "moe_room_percent", "offload_percent")
"""Columns of whole numbers that are knobs; with ``CODES`` and the mesh, all there are."""


@dataclass(frozen=True)
class StrategyTable:
    """``n`` strategies as columns of shape ``[n]``; sizes are int64, choices are int8 codes into ``CODES``.

    No law reads ``sharding_mode`` or ``scheduler``: all price the ``manual`` step of docs/step.md under XLA's own flags.
    """

    data: Ints
    fsdp: Ints
    context: Ints
    tensor: Ints
    expert: Ints
    microbatches: Ints
    loss_chunk_tokens: Ints
    ulysses: Ints
    attention_block: Ints
    scheme: Codes
    remat: Codes
    backend: Codes
    axis_order: Codes
    collective_matmul: Codes
    gather_dtype: Codes
    reduce_dtype: Codes
    moments_dtype: Codes
    sharding_mode: Codes
    scheduler: Codes
    bidirectional: Codes
    moe_dispatch: Codes
    moe_room_percent: Ints
    offload_percent: Ints

    def __post_init__(self) -> None:
        shapes = {getattr(self, field.name).shape for field in fields(self)}
        assert len(shapes) == 1, f"columns of different shapes: {shapes}"
        assert len(self.data.shape) == 1, f"columns are one-dimensional, not {self.data.shape}"

    def __len__(self) -> int:
        return int(self.data.shape[0])

    @cached_property
    def devices(self) -> Ints:
        """Devices that each strategy's mesh takes, shape ``[n]``."""
        product: Ints = self.data * self.fsdp * self.context * self.tensor * self.expert
        return product

    def take(self, indices: NDArray[np.integer] | NDArray[np.bool_] | slice) -> StrategyTable:
        """The rows that ``indices`` (integers, a boolean mask of ``n``, or a slice) picks, in that order."""
        return StrategyTable(**{field.name: getattr(self, field.name)[indices] for field in fields(self)})

    def strategy(self, i: int) -> Strategy:
        """Row ``i`` as a ``Strategy``."""
        chosen = {name: CODES[name][int(getattr(self, name)[i])] for name in CODES}
        sizes = {name: int(getattr(self, name)[i]) for name in SIZES}
        mesh = Mesh(**{axis: int(getattr(self, axis)[i]) for axis in _MESH})
        return Strategy.model_validate({"mesh": mesh, **sizes, **chosen})

    @classmethod
    def from_strategies(cls, strategies: Sequence[Strategy]) -> Self:
        """One row for each strategy.

        Raises
        ------
        BadInputError
            A strategy's axis order is not one of ``lcplan.strategy.AXIS_ORDERS``.
        """
        foreign = {s.axis_order for s in strategies if s.axis_order not in ORDERS}
        if foreign:
            known = "; ".join(",".join(order) for order in ORDERS)
            raise BadInputError([f"axis_order={','.join(order)} has no law; use one of: {known}" for order in sorted(foreign)])
        columns: dict[str, NDArray[np.integer]] = {
            axis: np.array([getattr(s.mesh, axis) for s in strategies], dtype=np.int64) for axis in _MESH
        }
        columns |= {name: np.array([getattr(s, name) for s in strategies], dtype=np.int64) for name in SIZES}
        columns |= {
            name: np.array([codes.index(getattr(s, name)) for s in strategies], dtype=np.int8) for name, codes in CODES.items()
        }
        return cls(**columns)  # type: ignore[arg-type]

    @classmethod
    def concatenate(cls, tables: Sequence[StrategyTable]) -> Self:
        """Rows of all tables, in order."""
        return cls(**{field.name: np.concatenate([getattr(table, field.name) for table in tables]) for field in fields(cls)})
