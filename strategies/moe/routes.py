"""Routes of assignments that are sorted by expert: what dropless dispatch and dispatch with a capacity share.

Inside ``shard_map``: all lengths are local. U tokens, A = U k assignments, E experts of all ranks, R rows that come here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

from strategies.moe.capacity_rows import Room
from strategies.parallel.collectives import all_to_all
from strategies.parallel.mesh import EXPERT


class Sorted(NamedTuple):
    """The assignments of this rank's tokens, by expert."""

    order_A: Int[Array, " A"]
    """Which assignment, of all in the order of tokens, comes at each place."""
    place_Uk: Int[Array, "U k"]
    """The place of each assignment."""
    counts_E: Int[Array, " E"]

    @classmethod
    def of(cls, experts_Uk: Int[Array, "U k"], *, experts: int) -> Sorted:
        """A stable sort: within an expert tokens stay in order."""
        flat = experts_Uk.reshape(-1)
        order_A = jnp.argsort(flat, stable=True)
        place = jnp.zeros_like(order_A).at[order_A].set(jnp.arange(flat.size, dtype=order_A.dtype))
        counts = jnp.zeros(experts, jnp.int32).at[flat].add(1)
        return cls(order_A, place.reshape(experts_Uk.shape), counts)

    def rows(self, x_UD: Float[Array, "U D"]) -> Float[Array, "A D"]:
        """A copy of a token's row for each assignment."""
        return x_UD[self.order_A // self.place_Uk.shape[1]]

    def sums(self, rows_AD: Float[Array, "A D"]) -> Float[Array, "U D"]:
        """For each token the sum over its assignments; the transpose of ``rows``."""
        return rows_AD[self.place_Uk].astype(jnp.float32).sum(axis=1).astype(rows_AD.dtype)


def exclusive(counts: Int[Array, "... n"]) -> Int[Array, "... n"]:
    """Sums of all before each, along the last dim."""
    return jnp.cumsum(counts, axis=-1) - counts


def swapped(x: Shaped[Array, "n ..."], ranks: int) -> Shaped[Array, "n ..."]:
    """As many equal parts of the leading dim as there are ranks: part i to rank i, from rank i part i."""
    return all_to_all(x.reshape(ranks, -1, *x.shape[1:]), EXPERT).reshape(x.shape)


@dataclass(frozen=True)
class SortedDispatch(ABC):
    """A ``Dispatch`` of rows and of weights, by how one array of assignments gets ``there`` and ``back``."""

    sorted: Sorted
    room: Room

    @abstractmethod
    def there(self, x_A: Shaped[Array, "A ..."]) -> Shaped[Array, "R ..."]:
        """From assignments to the rows of their experts' ranks; other rows are zero."""

    @abstractmethod
    def back(self, rows_R: Shaped[Array, "R ..."]) -> Shaped[Array, "A ..."]:
        """The transpose."""

    @abstractmethod
    def dropped(self) -> Int[Array, ""]:
        """As ``Dispatch``."""

    def out(self, x_UD: Float[Array, "U D"]) -> Float[Array, "R D"]:
        """As ``Dispatch``."""
        return self.there(self.sorted.rows(x_UD))

    def home(self, rows_RD: Float[Array, "R D"]) -> Float[Array, "U D"]:
        """As ``Dispatch``."""
        return self.sorted.sums(self.back(rows_RD))

    def weights_out(self, weights_Uk: Float[Array, "U k"]) -> Float[Array, " R"]:
        """As ``Dispatch``."""
        return self.there(weights_Uk.reshape(-1)[self.sorted.order_A])

    def weights_home(self, weights_R: Float[Array, " R"]) -> Float[Array, "U k"]:
        """As ``Dispatch``."""
        return self.back(weights_R)[self.sorted.place_Uk]
