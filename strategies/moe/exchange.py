"""Dropless dispatch: rows sorted by expert, an all-to-all that moves only routed rows, rows sorted by expert again.

One small gather gives every rank the number of rows that each rank sends to each expert. All ranks compute the same
positions from these counts. A rank orders its rows by expert, and within an expert by sending rank, so nothing is sorted
twice: the ragged all-to-all sends one run per expert and writes it to its position. A backend without a ragged all-to-all
uses an all-to-all of a fixed number of rows per pair of ranks, and the rows are picked out of it.

Rows that do not fit into the receiving buffer are dropped: the last ones in that order.

Inside ``shard_map``: all lengths are local. U tokens, A = U k assignments sorted by expert, E experts of all ranks, G of this
one, X ranks of the expert axis, R rows of a rank's buffer.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int, Shaped

from strategies.inputs.step_spec import Platform
from strategies.moe.capacity_rows import RowCapacity, block_rows
from strategies.moe.interface import ProductsName, as_residual, masked
from strategies.moe.products import BlockProducts, Products, RaggedProducts
from strategies.moe.routes import Sorted, SortedDispatch, exclusive, swapped
from strategies.parallel.collectives import Ragged, all_gather, ragged_all_to_all
from strategies.parallel.compute_in_place import zeros_after
from strategies.parallel.mesh import EXPERT


class Traffic(NamedTuple):
    """Rows that go from each rank to each expert, and where; the same on every rank."""

    starts_XXG: Int[Array, "X X G"]
    """Begin of each run among the sender's assignments, by sending rank, receiving rank, expert."""
    sizes_XXG: Int[Array, "X X G"]
    """Rows that are sent because the buffer holds them."""
    targets_XXG: Int[Array, "X X G"]
    """Begin of each run on the receiver."""

    @classmethod
    def of(cls, counts_XE: Int[Array, "X E"], *, rows: int) -> Traffic:
        """Build the traffic from every rank's counts; a receiver's buffer holds ``rows``."""
        ranks = counts_XE.shape[0]
        counts = counts_XE.reshape(ranks, ranks, -1)
        arrival = counts.transpose(1, 2, 0)  # receiver, expert, sender
        targets = exclusive(arrival.reshape(ranks, -1)).reshape(arrival.shape).transpose(2, 0, 1)
        starts = exclusive(counts_XE).reshape(counts.shape)
        return cls(starts, jnp.clip(rows - targets, 0, counts), jnp.minimum(targets, rows))

    def to_experts(self, rank: Int[Array, ""]) -> Ragged:
        """Return the runs from assignments to rows of the experts' ranks."""
        parts = self.starts_XXG[rank], self.sizes_XXG[rank], self.targets_XXG[rank], self.sizes_XXG[:, rank]
        return Ragged._make(part.reshape(-1) for part in parts)

    def to_tokens(self, rank: Int[Array, ""]) -> Ragged:
        """Return the runs from rows to assignments."""
        parts = self.targets_XXG[:, rank], self.sizes_XXG[:, rank], self.starts_XXG[:, rank], self.sizes_XXG[rank]
        return Ragged._make(part.reshape(-1) for part in parts)


@dataclass(frozen=True)
class Exchange(SortedDispatch):
    """Shared part of all dropless variants; members define ``to_experts`` and ``to_tokens``."""

    kernel: ProductsName

    @property
    def spare(self) -> int:
        """Rows behind the last one that a block of it may reach into."""
        return block_rows(self.capacity) if self.kernel == "blocks" else 0

    @property
    @abstractmethod
    def sizes(self) -> Int[Array, " G"]:
        """Rows of each of this rank's experts."""

    def products(self) -> Products:
        """Implement ``Dispatch``."""
        return RaggedProducts(self.sizes) if self.kernel == "ragged" else BlockProducts(self.sizes, self.spare)


@as_residual("sorted", static=("capacity", "kernel"))
@dataclass(frozen=True)
class OwnExperts(Exchange):
    """One rank has all experts: nothing moves and nothing is dropped."""

    def to_experts(self, x_A: Shaped[Array, "A ..."]) -> Shaped[Array, "R ..."]:
        """Implement ``Exchange``."""
        return jnp.pad(x_A, ((0, self.spare), *((0, 0),) * (x_A.ndim - 1)))

    def to_tokens(self, rows_R: Shaped[Array, "R ..."]) -> Shaped[Array, "A ..."]:
        """Implement ``Exchange``."""
        return rows_R[: self.capacity.assigned]

    @property
    def sizes(self) -> Int[Array, " G"]:
        """Implement ``Exchange``."""
        return self.sorted.counts_E

    def dropped(self) -> Int[Array, ""]:
        """Implement ``Dispatch``."""
        return jnp.zeros((), jnp.int32)


@as_residual("sorted", "traffic", static=("capacity", "kernel"))
@dataclass(frozen=True)
class RaggedExchange(Exchange):
    """Exchange by a ragged all-to-all, which moves only routed rows."""

    traffic: Traffic

    def to_experts(self, x_A: Shaped[Array, "A ..."]) -> Shaped[Array, "R ..."]:
        """Implement ``Exchange``."""
        into = zeros_after(x_A, shape=(self.capacity.rows + self.spare, *x_A.shape[1:]), dtype=x_A.dtype)
        return ragged_all_to_all(x_A, into, self.traffic.to_experts(lax.axis_index(EXPERT)), axis=EXPERT)

    def to_tokens(self, rows_R: Shaped[Array, "R ..."]) -> Shaped[Array, "A ..."]:
        """Implement ``Exchange``."""
        into = zeros_after(rows_R, shape=(self.capacity.assigned, *rows_R.shape[1:]), dtype=rows_R.dtype)
        return ragged_all_to_all(rows_R, into, self.traffic.to_tokens(lax.axis_index(EXPERT)), axis=EXPERT)

    @property
    def sizes(self) -> Int[Array, " G"]:
        """Implement ``Exchange``."""
        return self.traffic.sizes_XXG[:, lax.axis_index(EXPERT)].sum(axis=0)

    def dropped(self) -> Int[Array, ""]:
        """Implement ``Dispatch``."""
        return self.capacity.assigned - self.traffic.sizes_XXG[lax.axis_index(EXPERT)].sum()


@as_residual("sorted", "counts_XXG", static=("capacity", "kernel"))
@dataclass(frozen=True)
class PairExchange(Exchange):
    """Exchange by an all-to-all of ``capacity.pair_rows`` rows per pair of ranks."""

    counts_XXG: Int[Array, "X X G"]
    """Rows that each rank has for each expert of each rank."""

    @property
    def _slots(self) -> tuple[Array, Array]:
        """Return the assignment of each slot of the send buffer, and whether the slot is used."""
        counts_X = self.counts_XXG[lax.axis_index(EXPERT)].sum(axis=-1)
        slot = jnp.arange(self.capacity.pair_rows)
        place = exclusive(counts_X)[:, None] + slot
        return place.reshape(-1), (slot < counts_X[:, None]).reshape(-1)

    @property
    def _arrived(self) -> Int[Array, "X G"]:
        """Rows that came, by sender and expert."""
        coming = self.counts_XXG[:, lax.axis_index(EXPERT)]
        return jnp.clip(self.capacity.pair_rows - exclusive(coming), 0, coming)

    @property
    def _source(self) -> tuple[Array, Array]:
        """Return the slot of each row in the received buffer, and whether the row is used."""
        arrived = self._arrived
        ranks, experts = arrived.shape
        rows = ranks * self.capacity.pair_rows + self.spare
        first = exclusive(arrived) + jnp.arange(ranks)[:, None] * self.capacity.pair_rows
        sizes = arrived.T.reshape(-1)
        run = jnp.repeat(jnp.arange(ranks * experts), sizes, total_repeat_length=rows)
        row = jnp.arange(rows)
        return first.T.reshape(-1)[run] + row - exclusive(sizes)[run], row < sizes.sum()

    def to_experts(self, x_A: Shaped[Array, "A ..."]) -> Shaped[Array, "R ..."]:
        """Implement ``Exchange``."""
        place, used = self._slots
        came = swapped(masked(x_A.at[place].get(mode="clip"), used), self.capacity.ranks)
        source, kept = self._source
        return masked(came.at[source].get(mode="clip"), kept)

    def to_tokens(self, rows_R: Shaped[Array, "R ..."]) -> Shaped[Array, "A ..."]:
        """Implement ``Exchange``."""
        place, used = self._slots
        source, kept = self._source
        slots = zeros_after(rows_R, shape=(place.size, *rows_R.shape[1:]), dtype=rows_R.dtype)
        slots = swapped(slots.at[jnp.where(kept, source, place.size)].set(rows_R, mode="drop"), self.capacity.ranks)
        x_A = zeros_after(rows_R, shape=(self.capacity.assigned, *rows_R.shape[1:]), dtype=rows_R.dtype)
        return x_A.at[jnp.where(used, place, self.capacity.assigned)].set(slots, mode="drop")

    @property
    def sizes(self) -> Int[Array, " G"]:
        """Implement ``Exchange``."""
        return self._arrived.sum(axis=0)

    def dropped(self) -> Int[Array, ""]:
        """Implement ``Dispatch``."""
        sent = self.counts_XXG[lax.axis_index(EXPERT)].sum(axis=-1)
        return jnp.maximum(sent - self.capacity.pair_rows, 0).sum()


def exchange(experts_Uk: Int[Array, "U k"], *, capacity: RowCapacity, platform: Platform) -> Exchange:
    """The exchange that the platform runs best."""
    own = Sorted.of(experts_Uk, experts=capacity.experts)
    kernel: ProductsName = "ragged" if platform == "tpu" else "blocks"
    if capacity.ranks == 1:
        return OwnExperts(own, capacity, kernel)
    counts_XE = all_gather(own.counts_E[None], EXPERT)
    if platform == "cpu":
        return PairExchange(own, capacity, kernel, counts_XE.reshape(capacity.ranks, capacity.ranks, -1))
    return RaggedExchange(own, capacity, kernel, Traffic.of(counts_XE, rows=capacity.rows))
