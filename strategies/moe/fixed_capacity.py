"""Dispatch with a capacity: every rank sends each expert the same number of rows, full or not.

Rows beyond the capacity are dropped, the last tokens first. The all-to-all is even and its products are batched.

Inside ``shard_map``: all lengths are local. U tokens, A = U k assignments, E experts of all ranks in groups of G, C rows that a
rank sends to one expert; R = E C rows come to each rank, for each of its experts C from every rank.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Int, Shaped

from strategies.moe.capacity_rows import RowCapacity
from strategies.moe.interface import as_residual, masked
from strategies.moe.products import EvenProducts
from strategies.moe.routes import Sorted, SortedDispatch, exclusive, swapped
from strategies.parallel.compute_in_place import zeros_after


@as_residual("sorted", static=("capacity",))
@dataclass(frozen=True)
class Capacity(SortedDispatch):
    """The routes of one layer."""

    @classmethod
    def of(cls, experts_Uk: Int[Array, "U k"], *, capacity: RowCapacity) -> Capacity:
        """Build the routes from the router's choice."""
        return cls(Sorted.of(experts_Uk, experts=capacity.experts), capacity)

    @property
    def _slots(self) -> tuple[Array, Array]:
        """Return the assignment of each of E x C slots, and whether the slot is used."""
        counts, slot = self.sorted.counts_E[:, None], jnp.arange(self.capacity.expert_rows)
        return (exclusive(self.sorted.counts_E)[:, None] + slot).reshape(-1), (slot < counts).reshape(-1)

    def to_experts(self, x_A: Shaped[Array, "A ..."]) -> Shaped[Array, "R ..."]:
        """Implement ``SortedDispatch``."""
        place, used = self._slots
        came = swapped(masked(x_A.at[place].get(mode="clip"), used), self.capacity.ranks)
        return self._transposed(came, self.capacity.ranks, self.capacity.own)

    def to_tokens(self, rows_R: Shaped[Array, "R ..."]) -> Shaped[Array, "A ..."]:
        """Implement ``SortedDispatch``."""
        place, used = self._slots
        slots = swapped(self._transposed(rows_R, self.capacity.own, self.capacity.ranks), self.capacity.ranks)
        x_A = zeros_after(rows_R, shape=(self.capacity.assigned, *rows_R.shape[1:]), dtype=rows_R.dtype)
        return x_A.at[jnp.where(used, place, self.capacity.assigned)].set(slots, mode="drop")

    def _transposed(self, rows: Shaped[Array, "R ..."], first: int, second: int) -> Shaped[Array, "R ..."]:
        """Reorder blocks of C rows from (first, second) to (second, first)."""
        blocks = rows.reshape(first, second, self.capacity.expert_rows, *rows.shape[1:])
        return blocks.swapaxes(0, 1).reshape(rows.shape)

    def dropped(self) -> Int[Array, ""]:
        """Implement ``Dispatch``."""
        return jnp.maximum(self.sorted.counts_E - self.capacity.expert_rows, 0).sum()

    def products(self) -> EvenProducts:
        """Implement ``Dispatch``."""
        return EvenProducts(self.capacity.own)
