"""Vocabulary-parallel token embedding: each tensor rank looks up its own rows, the sum is scattered to the rows' owners.

Inside ``shard_map``: all lengths are local. V rows of the vocabulary and d = D / (fsdp * context) columns of the table on
this device, U tokens of the context rank, R = U / tensor of them in its residual stream.
"""

from __future__ import annotations

from functools import partial
from math import prod

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from strategies.inputs.step_spec import Numerics
from strategies.parallel.collectives import all_gather, reduce_scatter
from strategies.parallel.compute_in_place import staged_with, zero_after
from strategies.parallel.custom_gradients import with_backward
from strategies.parallel.mesh import STATE_AXES, TENSOR
from strategies.parallel.ranks import axis_index, axis_size


def embed(table_Vd: Float[Array, "V d"], tokens_U: Int[Array, " U"], *, numerics: Numerics) -> Float[Array, "R D"]:
    """The tokens' rows of the table, as the residual stream."""
    rows = table_Vd.shape[0]
    return with_backward(partial(_forward, numerics=numerics), partial(_backward, rows=rows, numerics=numerics))(
        table_Vd, tokens_U
    )


def _addresses(tokens_U: Int[Array, " U"], rows: int) -> Int[Array, "U pieces"]:
    """Return the index of each token's row in the gathered table; past its end for tokens of other ranks.

    The gathered table is one block of ``rows`` short rows for each piece of D. It is never transposed to V D: the lookup
    picks D / d short rows for each token instead of one long one.
    """
    pieces = prod(axis_size(axis) for axis in STATE_AXES)
    local = tokens_U - axis_index(TENSOR) * rows
    inside = (local >= 0) & (local < rows)
    return jnp.where(inside[:, None], local[:, None] + jnp.arange(pieces) * rows, pieces * rows)


def _forward(
    table_Vd: Float[Array, "V d"], tokens_U: Int[Array, " U"], *, numerics: Numerics
) -> tuple[Float[Array, "R D"], Int[Array, "U pieces"]]:
    addresses = _addresses(tokens_U, table_Vd.shape[0])
    blocks = all_gather(staged_with(table_Vd, tokens_U).astype(numerics.gather), STATE_AXES)
    rows = blocks.at[addresses].get(mode="fill", fill_value=0)
    return reduce_scatter(rows.reshape(tokens_U.size, -1).astype(numerics.compute), TENSOR), addresses


def _backward(
    addresses: Int[Array, "U pieces"], dx_RD: Float[Array, "R D"], *, rows: int, numerics: Numerics
) -> tuple[Float[Array, "V d"], None]:
    tokens, pieces = addresses.shape
    dx = all_gather(dx_RD, TENSOR).reshape(tokens, pieces, -1).astype(numerics.reduce)
    zeros = jnp.broadcast_to(zero_after(dx), (pieces * rows, dx.shape[-1]))
    blocks = zeros.at[addresses].add(dx, mode="drop")
    return reduce_scatter(blocks, STATE_AXES).astype(numerics.stored), None
