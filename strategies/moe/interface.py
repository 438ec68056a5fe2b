"""Dispatch: how rows get from tokens to experts and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

from strategies.moe.products import Products

ProductsName = Literal["ragged", "blocks"]
T = TypeVar("T")


class Dispatch(Protocol):
    """One layer's routes, built from the router's choice; a tuple of index arrays, so that it can be a residual.

    ``dispatch`` and ``combine`` are linear and each other's transposes, so each is the other's backward pass. A dropped row
    is zero in both directions.
    """

    def dispatch(self, x_UD: Float[Array, "U D"]) -> Float[Array, "R D"]:
        """Send each token's row to the ranks of its experts, sorted by expert."""

    def combine(self, rows_RD: Float[Array, "R D"]) -> Float[Array, "U D"]:
        """Sum the rows of each token in fp32 and return them in the rows' dtype."""

    def dispatch_weights(self, weights_Uk: Float[Array, "U k"]) -> Float[Array, " R"]:
        """Send each token's weights to the ranks of its experts."""

    def combine_weights(self, weights_R: Float[Array, " R"]) -> Float[Array, "U k"]:
        """The transpose of ``dispatch_weights``."""

    def dropped(self) -> Int[Array, ""]:
        """Count the dropped rows of this rank's tokens."""

    def products(self) -> Products:
        """Products of the rows that came, with their experts' matrices."""


def masked(rows: Shaped[Array, "R ..."], keep_R: Shaped[Array, " R"]) -> Shaped[Array, "R ..."]:
    """Rows that are kept; the others zero."""
    return jnp.where(keep_R.reshape(-1, *(1,) * (rows.ndim - 1)), rows, 0)


def as_residual(*data: str, static: tuple[str, ...]) -> Callable[[type[T]], type[T]]:
    """A frozen dataclass that jax may keep for the backward pass: fields of arrays, and static ones."""

    def register(cls: type[T]) -> type[T]:
        return jax.tree_util.register_dataclass(cls, data_fields=data, meta_fields=static)

    return register
