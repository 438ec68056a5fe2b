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
    """One layer's routes, made from what the router chose; a tuple of index arrays, so that it can be a residual.

    ``out`` and ``home`` are linear and each other's transposes, so each is the other's backward pass. A row that finds no
    room is zero on both ways.
    """

    def out(self, x_UD: Float[Array, "U D"]) -> Float[Array, "R D"]:
        """Each token's row to each of its experts' ranks, sorted by expert there."""

    def home(self, rows_RD: Float[Array, "R D"]) -> Float[Array, "U D"]:
        """For each token the sum of its rows, in fp32, returned in the rows' dtype."""

    def weights_out(self, weights_Uk: Float[Array, "U k"]) -> Float[Array, " R"]:
        """Each token's weights to where its rows go."""

    def weights_home(self, weights_R: Float[Array, " R"]) -> Float[Array, "U k"]:
        """The transpose of ``weights_out``."""

    def dropped(self) -> Int[Array, ""]:
        """Rows of this rank's tokens that found no room."""

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
