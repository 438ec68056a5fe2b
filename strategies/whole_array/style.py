"""Two ways to state shardings, from which the compiler derives the collectives.

* ``auto``: arrays have no sharding while the program is traced. ``with_sharding_constraint`` gives some
  of them a sharding, and the compiler chooses the others.
* ``explicit``: the sharding is part of every array's type. Where an operation leaves it open (a contraction over a dim that
  is split, a lookup), the operation takes ``out_sharding``; ``reshard`` is the only other thing that moves data.

The program is the same. Each function here states it in both ways, so that only the results of jax and XLA differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Shaped

from lcplan.strategy import ShardingMode
from strategies.parallel.mesh import BATCH_AXES, CONTEXT, TENSOR

TOKENS = P(BATCH_AXES, CONTEXT)
"""``B/(data, fsdp) T/context``: the inputs and results of attention, and the inputs of tensor-parallel products."""
RESIDUAL = P(BATCH_AXES, (CONTEXT, TENSOR))
"""``B/(data, fsdp) T/(context, tensor) D``: the residual stream between them."""
COLUMNS = P(BATCH_AXES, CONTEXT, TENSOR)
"""``B/(data, fsdp) T/context X/tensor``: heads, or columns of the feed-forward layer."""

Dims = tuple[int, ...]


@dataclass(frozen=True)
class Style:
    """Return the style in which ``mode`` states shardings on ``mesh``."""

    mode: Literal["auto", "explicit"]
    mesh: Mesh

    @property
    def as_auto(self) -> Style:
        """The style inside ``inferred``, whose arrays have no sharding in their types."""
        return Style("auto", Mesh(self.mesh.devices, self.mesh.axis_names))

    def sharding(self, to: P) -> NamedSharding:
        """``to`` on this mesh."""
        return NamedSharding(self.mesh, to)

    def place(self, x: Shaped[Array, ...], to: P) -> Shaped[Array, ...]:
        """Return ``x`` with the sharding ``to``."""
        if self.mode == "auto":
            return lax.with_sharding_constraint(x, self.sharding(to))
        return jax.sharding.reshard(x, self.sharding(to))

    def dot(self, a: Float[Array, ...], b: Float[Array, ...], *, over: tuple[Dims, Dims], to: P, dtype: Any) -> Array:
        """Contract the dims ``over`` of ``a`` and ``b``; the sum, of ``dtype``, has the sharding ``to``."""
        dims = (over, ((), ()))
        if self.mode == "auto":
            return self.place(lax.dot_general(a, b, dims, preferred_element_type=dtype), to)
        return lax.dot_general(a, b, dims, preferred_element_type=dtype, out_sharding=self.sharding(to))

    def inferred(self, function: Callable[..., Any], *, to: Any) -> Callable[..., Any]:
        """Return ``function`` with shardings left to the compiler inside and results sharded as ``to``.

        In ``explicit`` this is jax's escape where types cannot follow: a scatter by index, a reshape that splits a dim.
        """
        shardings = jax.tree.map(self.sharding, to, is_leaf=lambda x: isinstance(x, P))
        if self.mode == "explicit":
            return jax.sharding.auto_axes(function, axes=tuple(self.mesh.axis_names), out_sharding=shardings)
        return lambda *operands: jax.tree.map(lax.with_sharding_constraint, function(*operands), shardings)


def mesh_of(mode: ShardingMode, mesh: Mesh) -> Mesh:
    """``mesh`` with the axis types that ``mode`` needs."""
    if mode != "explicit":
        return mesh
    return Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Explicit,) * len(mesh.axis_names))


def style_of(mode: ShardingMode, mesh: Mesh) -> Style:
    """The style of a mode that is not ``manual``."""
    assert mode != "manual"
    return Style(mode, mesh)
