"""CollectiveUse: one kind of collective of a step, from the cost model or from an executable."""

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
    level: Literal["domain", "network"] | None = None
    """Whether a group stays in one domain (rack, slice) or crosses the network; only of a job on several domains."""
    purpose: str | None = None
    """The data that it moves (``weights``, ``kv-ring``, ...); only the cost model knows it."""

    @property
    def total_bytes(self) -> int:
        """Bytes per step."""
        return self.bytes * self.calls
