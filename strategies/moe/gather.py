"""Dispatch without an all-to-all: every expert rank gathers all tokens and picks those of its own experts.

MaxText's ``use_ring_of_experts`` does the same. A reduce-scatter returns the sums.

Inside ``shard_map``: all lengths are local. U tokens of this rank, W = U X of all X ranks of the expert axis, G experts of this
rank, R rows of its buffer.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from strategies.inputs.step_spec import Platform
from strategies.moe.capacity_rows import RowCapacity, block_rows
from strategies.moe.interface import ProductsName, as_residual, masked
from strategies.moe.products import BlockProducts, Products, RaggedProducts
from strategies.parallel.collectives import all_gather, reduce_scatter
from strategies.parallel.compute_in_place import zeros_after
from strategies.parallel.mesh import EXPERT


@as_residual("order_R", "sizes_G", "missing", static=("capacity", "kernel"))
@dataclass(frozen=True)
class Gathered:
    """The routes of one layer."""

    order_R: Int[Array, " R"]
    """Assignments of all ranks to this rank's experts, by expert and then in the order of tokens."""
    sizes_G: Int[Array, " G"]
    """Rows of each expert that the buffer holds."""
    missing: Int[Array, ""]
    """Rows of this rank's experts that do not."""
    capacity: RowCapacity
    kernel: ProductsName

    @classmethod
    def of(cls, experts_Uk: Int[Array, "U k"], *, capacity: RowCapacity, platform: Platform) -> Gathered:
        """Build the routes from the router's choice."""
        local = all_gather(experts_Uk, EXPERT).reshape(-1) - lax.axis_index(EXPERT) * capacity.own
        expert = jnp.where((local >= 0) & (local < capacity.own), local, capacity.own)
        counts = jnp.zeros(capacity.own + 1, jnp.int32).at[expert].add(1)[:-1]
        sizes = jnp.clip(capacity.rows - jnp.cumsum(counts) + counts, 0, counts)
        kernel: ProductsName = "ragged" if platform == "tpu" else "blocks"
        return cls(jnp.argsort(expert, stable=True)[: capacity.rows], sizes, (counts - sizes).sum(), capacity, kernel)

    @property
    def _spare(self) -> int:
        return block_rows(self.capacity) if self.kernel == "blocks" else 0

    @property
    def _kept(self) -> Array:
        return jnp.arange(self.capacity.rows) < self.sizes_G.sum()

    def dispatch(self, x_UD: Float[Array, "U D"]) -> Float[Array, "R D"]:
        """Implement ``Dispatch``."""
        x_WD = all_gather(x_UD, EXPERT)
        rows = masked(x_WD[self.order_R // self.capacity.chosen], self._kept)
        return jnp.pad(rows, ((0, self._spare), (0, 0)))

    def combine(self, rows_RD: Float[Array, "R D"]) -> Float[Array, "U D"]:
        """Implement ``Dispatch``."""
        rows = masked(rows_RD[: self.capacity.rows], self._kept).astype(jnp.float32)
        tokens = self.capacity.tokens * self.capacity.ranks
        sums = zeros_after(rows, shape=(tokens, rows.shape[1]), dtype=jnp.float32)
        return reduce_scatter(sums.at[self.order_R // self.capacity.chosen].add(rows).astype(rows_RD.dtype), EXPERT)

    def dispatch_weights(self, weights_Uk: Float[Array, "U k"]) -> Float[Array, " R"]:
        """Implement ``Dispatch``."""
        weights = all_gather(weights_Uk, EXPERT).reshape(-1)[self.order_R]
        return jnp.pad(masked(weights, self._kept), (0, self._spare))

    def combine_weights(self, weights_R: Float[Array, " R"]) -> Float[Array, "U k"]:
        """Implement ``Dispatch``."""
        kept = masked(weights_R[: self.capacity.rows], self._kept)
        sums = jnp.zeros(self.capacity.assigned * self.capacity.ranks, kept.dtype).at[self.order_R].add(kept)
        return reduce_scatter(sums.reshape(-1, self.capacity.chosen), EXPERT)

    def dropped(self) -> Int[Array, ""]:
        """Count rows of all ranks that this rank drops; the sum over ranks equals that of ``Dispatch``."""
        return self.missing

    def products(self) -> Products:
        """Implement ``Dispatch``."""
        return RaggedProducts(self.sizes_G) if self.kernel == "ragged" else BlockProducts(self.sizes_G, self._spare)
