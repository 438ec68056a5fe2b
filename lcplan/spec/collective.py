"""CollectiveUse: one kind of collective of a step, as a law lists it or as an executable shows it."""

from __future__ import annotations

from typing import Literal

from lcplan.formats.frozen import Frozen

Op = Literal["all-gather", "reduce-scatter", "all-reduce", "collective-permute", "all-to-all", "ragged-all-to-all", "broadcast"]


class CollectiveUse(Frozen):
    """``calls`` times a step, each device takes part in ``op`` over ``axis`` with an operand of ``bytes``.

    ``bytes`` is the larger side of the operand as one device holds it: the gathered result of an all-gather, the input of a
    reduce-scatter, the buffer of an all-reduce, permute or all-to-all. ``axis`` joins several mesh axes with ``+`` in the
    order data, fsdp, context, tensor, expert; ``context/4`` is groups of four neighbours on the axis; ``?`` where an
    executable's groups match neither.
    """

    op: Op
    axis: str
    bytes: int
    calls: int
    backend: str | None = None
    purpose: str | None = None
    """What it moves (``weights``, ``kv-ring``, ...); known to the law only."""

    @property
    def total_bytes(self) -> int:
        """Bytes a step."""
        return self.bytes * self.calls
