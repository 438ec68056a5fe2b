"""The matrix products of a layer over whole arrays: weights are gathered for use, gradients get their parameter's sharding.

Each product has a backward pass of its own for one reason: the gradient of a matrix leaves its product in ``reduce`` dtype
and gets its parameter's sharding, so that the compiler may reduce-scatter it. Left to autodiff it would be reduced in
the dtype that the weight was rounded to. As in the manual step the gathered weight is a residual that no remat policy names.

All lengths are global. Matrices are stored D first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float

from strategies.inputs.step_spec import Numerics
from strategies.parallel.custom_gradients import with_backward
from strategies.whole_array.style import COLUMNS, RESIDUAL, TOKENS, Style


@dataclass(frozen=True)
class Matrix:
    """Sharding of a matrix and of its product's columns."""

    style: Style
    numerics: Numerics
    stored: P
    """Return ``D/(fsdp, context) X/tensor``, as in ``strategies.parallel.placement``."""
    used: P
    """The same, with D whole."""
    columns: P = COLUMNS

    def collect(self, weight: Float[Array, "D ..."]) -> Float[Array, "D ..."]:
        """Round, and gather D."""
        rounded = self.style.place(weight.astype(self.numerics.gather), self.stored)  # the cast before the gather, not after
        return self.style.place(rounded, self.used).astype(self.numerics.compute)

    def distribute(self, gradient: Float[Array, "D ..."]) -> Float[Array, "D ..."]:
        """The transpose of ``collect``: the parameter's sharding and dtype."""
        return self.style.place(gradient, self.stored).astype(self.numerics.stored)

    def gradient(self, rows_BTD: Float[Array, "B T D"], columns: Float[Array, "B T ..."]) -> Float[Array, "D ..."]:
        """Sum over all tokens, with the parameter's sharding and dtype."""
        numerics = self.numerics
        made = self.style.dot(rows_BTD, columns, over=((0, 1), (0, 1)), to=self.stored, dtype=numerics.reduce)
        return made.astype(numerics.stored)


def _trailing(x: Array, first: int) -> tuple[int, ...]:
    return tuple(range(first, x.ndim))


def column(h_BTD: Float[Array, "B T D"], weight: Float[Array, "D ..."], *, how: Matrix) -> Float[Array, "B T ..."]:
    """``y = h W``: rows of the residual stream in, columns split over tensor out."""
    return with_backward(partial(_column_forward, how=how), partial(_column_backward, how=how))(h_BTD, weight)


def _column_forward(h_BTD: Array, weight: Array, *, how: Matrix) -> tuple[Array, Any]:
    h_BTD, gathered = how.style.place(h_BTD, TOKENS), how.collect(weight)
    y = how.style.dot(h_BTD, gathered, over=((2,), (0,)), to=how.columns, dtype=h_BTD.dtype)
    return y, (h_BTD, gathered)


def _column_backward(residuals: Any, dy: Array, *, how: Matrix) -> tuple[Array, Array]:
    h_BTD, gathered = residuals
    over = _trailing(dy, 2), _trailing(gathered, 1)
    return how.style.dot(dy, gathered, over=over, to=RESIDUAL, dtype=dy.dtype), how.gradient(h_BTD, dy)


def row(y: Float[Array, "B T ..."], weight: Float[Array, "D ..."], *, how: Matrix) -> Float[Array, "B T D"]:
    """``x = y W^T``: columns split over tensor in, rows of the residual stream out."""
    return with_backward(partial(_row_forward, how=how), partial(_row_backward, how=how))(y, weight)


def _row_forward(y: Array, weight: Array, *, how: Matrix) -> tuple[Array, Any]:
    gathered = how.collect(weight)
    x_BTD = how.style.dot(y, gathered, over=(_trailing(y, 2), _trailing(gathered, 1)), to=RESIDUAL, dtype=y.dtype)
    return x_BTD, (y, gathered)


def _row_backward(residuals: Any, dx_BTD: Array, *, how: Matrix) -> tuple[Array, Array]:
    y, gathered = residuals
    dx_BTD = how.style.place(dx_BTD, TOKENS)
    dy = how.style.dot(dx_BTD, gathered, over=((2,), (0,)), to=how.columns, dtype=dx_BTD.dtype)
    return dy, how.gradient(dx_BTD, y)
