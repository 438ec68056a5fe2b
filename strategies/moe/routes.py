"""Routes of assignments that are sorted by expert, shared by dropless dispatch and dispatch with a capacity.

Inside ``shard_map``: all lengths are local. U tokens, A = U k assignments, E experts of all ranks, R rows that come here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

from strategies.moe.capacity_rows import RowCapacity
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
        """Sum over the assignments of each token; the transpose of ``rows``."""
        return rows_AD[self.place_Uk].astype(jnp.float32).sum(axis=1).astype(rows_AD.dtype)


def exclusive(counts: Int[Array, "... n"]) -> Int[Array, "... n"]:
    """Sums of all before each, along the last dim."""
    return jnp.cumsum(counts, axis=-1) - counts


def swapped(x: Shaped[Array, "n ..."], ranks: int) -> Shaped[Array, "n ..."]:
    """Exchange equal parts of the leading dim, one per rank: send part i to rank i, and receive part i from rank i."""
    return all_to_all(x.reshape(ranks, -1, *x.shape[1:]), EXPERT).reshape(x.shape)


@dataclass(frozen=True)
class SortedDispatch(ABC):
    """A ``Dispatch`` of rows and of weights, defined by ``to_experts`` and ``to_tokens`` of one array of assignments."""

    sorted: Sorted
    capacity: RowCapacity

    @abstractmethod
    def to_experts(self, x_A: Shaped[Array, "A ..."]) -> Shaped[Array, "R ..."]:
        """Move assignments to the rows of their experts' ranks; other rows are zero."""

    @abstractmethod
    def to_tokens(self, rows_R: Shaped[Array, "R ..."]) -> Shaped[Array, "A ..."]:
        """The transpose."""

    @abstractmethod
    def dropped(self) -> Int[Array, ""]:
        """Implement ``Dispatch``."""

    def dispatch(self, x_UD: Float[Array, "U D"]) -> Float[Array, "R D"]:
        """Implement ``Dispatch``."""
        return self.to_experts(self.sorted.rows(x_UD))

    def combine(self, rows_RD: Float[Array, "R D"]) -> Float[Array, "U D"]:
        """Implement ``Dispatch``."""
        return self.sorted.sums(self.to_tokens(rows_RD))

    def dispatch_weights(self, weights_Uk: Float[Array, "U k"]) -> Float[Array, " R"]:
        """Implement ``Dispatch``."""
        return self.to_experts(weights_Uk.reshape(-1)[self.sorted.order_A])

    def combine_weights(self, weights_R: Float[Array, " R"]) -> Float[Array, "U k"]:
        """Implement ``Dispatch``."""
        return self.to_tokens(weights_R)[self.sorted.place_Uk]
