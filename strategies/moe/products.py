"""Products of rows with the matrix of their expert, rows sorted by expert.

Three families, one for each way of laying rows out or of multiplying them:

* ``RaggedProducts``: ``jax.lax.ragged_dot``, a kernel of its own on TPU. XLA for GPU and CPU (jax 0.10.1) has no such
  kernel: it makes a masked copy of all rows per expert, which suits only tests.
* ``BlockProducts``: a loop over blocks of rows, each of one expert; the iterations follow the rows, on every backend.
* ``EvenProducts``: as many rows for every expert, one batched product.

Inside ``shard_map``: all lengths are local. R rows, G experts of this rank. Matrices are stored D first, ``D G F``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from strategies.parallel.compute_in_place import zeros_after

Matrices = Float[Array, "D G F"]


class Products(Protocol):
    """Rows beyond those of the experts come out as anything finite; callers never read them."""

    def up(self, rows_RD: Float[Array, "R D"], weights: Matrices) -> Float[Array, "R F"]:
        """Each row times its expert's matrix."""

    def down(self, rows_RF: Float[Array, "R F"], weights: Matrices) -> Float[Array, "R D"]:
        """Each row times its expert's matrix, transposed."""

    def outer(self, rows_RD: Float[Array, "R D"], rows_RF: Float[Array, "R F"], *, dtype: jnp.dtype) -> Matrices:
        """Sum the outer products of each expert's rows: the whole gradient of a weight, in ``dtype``."""


@dataclass(frozen=True)
class RaggedProducts:
    """Products by jax's own ragged product; ``sizes_G`` rows per expert."""

    sizes_G: Int[Array, " G"]

    def up(self, rows_RD: Float[Array, "R D"], weights: Matrices) -> Float[Array, "R F"]:
        """Implement ``Products``."""
        return lax.ragged_dot(rows_RD, weights.swapaxes(0, 1), self.sizes_G)

    def down(self, rows_RF: Float[Array, "R F"], weights: Matrices) -> Float[Array, "R D"]:
        """Implement ``Products``."""
        return lax.ragged_dot(rows_RF, weights.transpose(1, 2, 0), self.sizes_G)

    def outer(self, rows_RD: Float[Array, "R D"], rows_RF: Float[Array, "R F"], *, dtype: jnp.dtype) -> Matrices:
        """Implement ``Products``."""
        contracted = lax.RaggedDotDimensionNumbers(
            dot_dimension_numbers=(((0,), (0,)), ((), ())), lhs_ragged_dimensions=[0], rhs_group_dimensions=[]
        )
        sums = lax.ragged_dot_general(rows_RD, rows_RF, self.sizes_G, contracted, preferred_element_type=dtype)
        return sums.swapaxes(0, 1)


@dataclass(frozen=True)
class BlockProducts:
    """Products by a loop over blocks of at most ``block`` rows of one expert; every array ends with ``block`` spare rows.

    A block that reaches beyond its expert's rows computes rows of the next expert wrongly; that expert's own blocks come later
    and put them right.
    """

    sizes_G: Int[Array, " G"]
    block: int

    def up(self, rows_RD: Float[Array, "R D"], weights: Matrices) -> Float[Array, "R F"]:
        """Implement ``Products``."""
        return self._each(rows_RD, weights, width=weights.shape[2], product=jnp.matmul)

    def down(self, rows_RF: Float[Array, "R F"], weights: Matrices) -> Float[Array, "R D"]:
        """Implement ``Products``."""
        return self._each(rows_RF, weights, width=weights.shape[0], product=lambda rows, matrix: rows @ matrix.T)

    def _each(self, rows: Array, weights: Matrices, *, width: int, product: Callable[[Array, Array], Array]) -> Array:
        def body(index: Array, out: Array) -> Array:
            expert, start, _ = self._place(index)
            matrix = lax.dynamic_index_in_dim(weights, expert, axis=1, keepdims=False)
            part = product(lax.dynamic_slice_in_dim(rows, start, self.block), matrix)
            return lax.dynamic_update_slice_in_dim(out, part, start, axis=0)

        empty = zeros_after(rows, shape=(rows.shape[0], width), dtype=rows.dtype)
        return lax.fori_loop(0, self._blocks.sum(), body, empty)

    def outer(self, rows_RD: Float[Array, "R D"], rows_RF: Float[Array, "R F"], *, dtype: jnp.dtype) -> Matrices:
        """Implement ``Products``."""

        def body(index: Array, sums: Matrices) -> Matrices:
            expert, start, end = self._place(index)
            own = (start + jnp.arange(self.block) < end)[:, None]
            left = jnp.where(own, lax.dynamic_slice_in_dim(rows_RD, start, self.block), 0)
            right = lax.dynamic_slice_in_dim(rows_RF, start, self.block)
            part = jnp.matmul(left.T, right, preferred_element_type=dtype)
            return sums.at[:, expert].add(part)

        shape = rows_RD.shape[1], self.sizes_G.shape[0], rows_RF.shape[1]
        return lax.fori_loop(0, self._blocks.sum(), body, zeros_after(rows_RF, shape=shape, dtype=dtype))

    @property
    def _blocks(self) -> Int[Array, " G"]:
        return -(-self.sizes_G // self.block)

    def _place(self, index: Int[Array, ""]) -> tuple[Array, Array, Array]:
        """A block's expert, its first row, and the end of the expert's rows."""
        last = jnp.cumsum(self._blocks)
        expert = jnp.searchsorted(last, index, side="right")
        ends = jnp.cumsum(self.sizes_G)
        first = ends[expert] - self.sizes_G[expert]
        return expert, first + (index - last[expert] + self._blocks[expert]) * self.block, ends[expert]


@dataclass(frozen=True)
class EvenProducts:
    """Products by one batched product; every expert has R / G rows."""

    experts: int

    def up(self, rows_RD: Float[Array, "R D"], weights: Matrices) -> Float[Array, "R F"]:
        """Implement ``Products``."""
        return self._flat(jnp.einsum("gcd,dgf->gcf", self._split(rows_RD), weights))

    def down(self, rows_RF: Float[Array, "R F"], weights: Matrices) -> Float[Array, "R D"]:
        """Implement ``Products``."""
        return self._flat(jnp.einsum("gcf,dgf->gcd", self._split(rows_RF), weights))

    def outer(self, rows_RD: Float[Array, "R D"], rows_RF: Float[Array, "R F"], *, dtype: jnp.dtype) -> Matrices:
        """Implement ``Products``."""
        product = partial(jnp.einsum, "gcd,gcf->dgf", preferred_element_type=dtype)
        return product(self._split(rows_RD), self._split(rows_RF))

    def _split(self, rows: Array) -> Array:
        return rows.reshape(self.experts, -1, rows.shape[1])

    def _flat(self, rows: Array) -> Array:
        return rows.reshape(-1, rows.shape[2])
