"""Token embedding over whole arrays: one lookup in a table that is split over the vocabulary. All lengths are global."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from strategies.inputs.step_spec import Numerics
from strategies.parallel.custom_gradients import with_backward
from strategies.parallel.mesh import TENSOR
from strategies.parallel.placement import SPLIT
from strategies.whole_array.style import RESIDUAL, TOKENS, Style

_STORED = SPLIT["embedding"]


def embed(
    table_VD: Float[Array, "V D"], tokens_BT: Int[Array, "B T"], *, style: Style, numerics: Numerics
) -> Float[Array, "B T D"]:
    """The tokens' rows of the table, as the residual stream."""
    rows = table_VD.shape[0]
    return with_backward(
        partial(_forward, style=style, numerics=numerics), partial(_backward, rows=rows, style=style, numerics=numerics)
    )(table_VD, tokens_BT)


def _forward(table_VD: Array, tokens_BT: Array, *, style: Style, numerics: Numerics) -> tuple[Array, Any]:
    table_VD = style.place(style.place(table_VD.astype(numerics.gather), _STORED), P(TENSOR))
    look_up = style.inferred(lambda table, tokens: table[tokens].astype(numerics.compute), to=TOKENS)
    return style.place(look_up(table_VD, tokens_BT), RESIDUAL), tokens_BT


def _backward(
    tokens_BT: Array, dx_BTD: Array, *, rows: int, style: Style, numerics: Numerics
) -> tuple[Float[Array, "V D"], None]:
    """Rows that share a token add up in ``reduce`` dtype.

    The sum is placed in two steps, first with D whole: asked for its shards at once, XLA would rather split D in the rows
    than in the table, and for that lay the whole residual stream on every device.
    """

    def add_up(tokens_BT: Array, dx_BTD: Array) -> Array:
        zeros = jnp.zeros((rows, dx_BTD.shape[-1]), numerics.reduce)
        return zeros.at[tokens_BT].add(dx_BTD.astype(numerics.reduce))

    summed = style.inferred(add_up, to=P(TENSOR))(tokens_BT, style.place(dx_BTD, TOKENS))
    return style.place(summed, _STORED).astype(numerics.stored), None
