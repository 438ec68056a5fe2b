"""What a train step reads."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Array, Int


class Batch(NamedTuple):
    """Token ids and what each should predict, ``B/(data, fsdp) T/context``, in the order that the scheme's ranks hold them."""

    tokens_BT: Int[Array, "B T"]
    targets_BT: Int[Array, "B T"]
    """Next tokens; ``-1`` where there is none to predict."""
