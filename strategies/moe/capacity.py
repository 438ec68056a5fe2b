"""Dispatch with a capacity: every rank sends each expert the same number of rows, full or not.

What does not fit is dropped, the last tokens first. The all-to-all is even and its products are batched.

Inside ``shard_map``: all lengths are local. U tokens, A = U k assignments, E experts of all ranks in groups of G, C rows that a
rank sends to one expert; R = E C rows come to each rank, for each of its experts C from every rank.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

from strategies.moe.exchange import Sorted, exclusive, swapped
from strategies.moe.interface import as_residual, masked
from strategies.moe.products import EvenProducts
from strategies.moe.room import Room


@as_residual("sorted", static=("room",))
@dataclass(frozen=True)
class Capacity:
    """The routes of one layer."""

    sorted: Sorted
    room: Room

    @classmethod
    def of(cls, experts_Uk: Int[Array, "U k"], *, room: Room) -> Capacity:
        """From what the router chose."""
        return cls(Sorted.of(experts_Uk, experts=room.experts), room)

    @property
    def _slots(self) -> tuple[Array, Array]:
        """For each of E x C slots its assignment, and whether there is one."""
        counts, slot = self.sorted.counts_E[:, None], jnp.arange(self.room.expert_rows)
        return (exclusive(self.sorted.counts_E)[:, None] + slot).reshape(-1), (slot < counts).reshape(-1)

    def _there(self, x_A: Shaped[Array, "A ..."]) -> Shaped[Array, "R ..."]:
        place, used = self._slots
        came = swapped(masked(x_A.at[place].get(mode="clip"), used), self.room.ranks)
        return self._turned(came, self.room.ranks, self.room.own)

    def _back(self, rows_R: Shaped[Array, "R ..."]) -> Shaped[Array, "A ..."]:
        place, used = self._slots
        slots = swapped(self._turned(rows_R, self.room.own, self.room.ranks), self.room.ranks)
        x_A = jnp.zeros((self.room.assigned, *rows_R.shape[1:]), rows_R.dtype)
        return x_A.at[jnp.where(used, place, self.room.assigned)].set(slots, mode="drop")

    def _turned(self, rows: Shaped[Array, "R ..."], first: int, second: int) -> Shaped[Array, "R ..."]:
        """From blocks of C rows by (first, second) to blocks by (second, first)."""
        blocks = rows.reshape(first, second, self.room.expert_rows, *rows.shape[1:])
        return blocks.swapaxes(0, 1).reshape(rows.shape)

    def out(self, x_UD: Float[Array, "U D"]) -> Float[Array, "R D"]:
        """As ``Dispatch``."""
        return self._there(self.sorted.rows(x_UD))

    def home(self, rows_RD: Float[Array, "R D"]) -> Float[Array, "U D"]:
        """As ``Dispatch``."""
        return self.sorted.sums(self._back(rows_RD))

    def weights_out(self, weights_Uk: Float[Array, "U k"]) -> Float[Array, " R"]:
        """As ``Dispatch``."""
        return self._there(weights_Uk.reshape(-1)[self.sorted.order_A])

    def weights_home(self, weights_R: Float[Array, " R"]) -> Float[Array, "U k"]:
        """As ``Dispatch``."""
        return self._back(weights_R)[self.sorted.place_Uk]

    def dropped(self) -> Int[Array, ""]:
        """As ``Dispatch``."""
        return jnp.maximum(self.sorted.counts_E - self.room.expert_rows, 0).sum()

    def products(self) -> EvenProducts:
        """As ``Dispatch``."""
        return EvenProducts(self.room.own)
