"""One collective: in ``manual`` it is jax's own, in the other modes the compiler derives it from two shardings or a sum.

The operand's larger side has B x D elements on every device of the group. The reductions sum over a leading dim of one element
per device. A permute rotates the rows by those of one device.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array

from lcplan.parts import Part
from lcplan.strategy import Strategy
from strategies.parts.operands import Operand, Traced
from strategies.whole_array import style_of


def collective(part: Part, strategy: Strategy, mesh: Mesh, **_: Any) -> Traced:
    """The collective ``part.op`` over ``part.axis``."""
    axis, members = part.axis, getattr(strategy.mesh, str(part.axis))
    assert axis is not None
    assert part.op is not None
    B, D = part.sizes["B"], part.sizes["D"]
    rows, columns, whole, stacked = P(axis), P(None, axis), P(), P(axis, None, None)
    operand, result = {
        "all-gather": (Operand((B, D), rows), whole),
        "reduce-scatter": (Operand((members, B, D), stacked), rows),
        "all-reduce": (Operand((members, B, D), stacked), whole),
        "all-to-all": (Operand((B * members, D), rows), columns),
        "collective-permute": (Operand((B * members, D), rows), rows),
    }[part.op]
    if strategy.sharding_mode == "manual":
        inside = partial(_BY_HAND[part.op], axis=axis, members=members)
        written = jax.shard_map(inside, mesh=mesh, in_specs=operand.split, out_specs=result, check_vma=False)
        return Traced(written, (operand,), result)
    style = style_of(strategy.sharding_mode, mesh)
    return Traced(style.inferred(partial(_WHOLE.get(part.op, _same), rows=B), to=result), (operand,), result)


def _permuted(x: Array, *, axis: str, members: int) -> Array:
    return lax.ppermute(x, axis, [(rank, (rank + 1) % members) for rank in range(members)])


_BY_HAND: dict[str, Callable[..., Array]] = {
    "all-gather": lambda x, axis, members: lax.all_gather(x, axis, tiled=True),
    "reduce-scatter": lambda x, axis, members: lax.psum_scatter(x[0], axis, tiled=True),
    "all-reduce": lambda x, axis, members: lax.psum(x[0], axis),
    "all-to-all": lambda x, axis, members: lax.all_to_all(x, axis, split_axis=1, concat_axis=0, tiled=True),
    "collective-permute": _permuted,
}


def _same(x: Array, *, rows: int) -> Array:
    return x


_WHOLE: dict[str, Callable[..., Array]] = {
    "reduce-scatter": lambda x, rows: x.sum(axis=0),
    "all-reduce": lambda x, rows: x.sum(axis=0),
    "collective-permute": lambda x, rows: jnp.roll(x, rows, axis=0),
}
