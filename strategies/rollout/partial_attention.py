"""Attention to a part of the keys, and the score of keys that are not seen."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Array, Float

HIDDEN = -1e30
"""The score of a slot that a token does not see."""


class Partial(NamedTuple):
    """Attention to a part of the keys: sums that are not yet divided by the sum of weights."""

    o: Float[Array, "B K G H"]
    top: Float[Array, "B K G"]
    """The largest score, which all weights are relative to."""
    sums: Float[Array, "B K G"]
