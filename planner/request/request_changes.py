"""Ask: a request whose device count is a limit, and whose batch follows the sequence length where nobody gave it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import lcm

from planner.request.request import SearchRequest, default_global_batch, default_tokens

TILE_TOKENS = 128
"""Lengths are searched in whole tiles of this many tokens per context rank: the query tile of flash attention kernels
(arXiv:2307.08691, section 3.3, blocks of 64 or 128) and the lane width of a TPU."""
LONGEST_TOKENS = 2**40
"""The largest sequence length of a workload."""


@dataclass(frozen=True)
class Piece:
    """Lengths above ``low`` and up to ``high`` [tokens] that are trained with one global batch [sequences]."""

    global_batch: int
    low: int
    high: int


@dataclass(frozen=True)
class Ask:
    """``request.devices`` is None; at most ``most_devices`` are used. ``backends`` are the toolchain's."""

    request: SearchRequest
    backends: tuple[str, ...]
    most_devices: int

    @property
    def batch_given(self) -> bool:
        """Whether the user fixed the global batch; otherwise it is the default of each sequence length."""
        return self.request.workload.global_batch_given

    @property
    def longest(self) -> int:
        """Longest sequence to ask for [tokens]."""
        return LONGEST_TOKENS

    def at(self, *, seq_len: int | None = None, global_batch: int | None = None) -> SearchRequest:
        """The request at another length [tokens] or batch [sequences]; the default batch follows the length."""
        work = self.request.workload
        length = seq_len or work.seq_len
        batch = global_batch or (work.global_batch if self.batch_given else self._default_batch(length))
        changed = work.resized(seq_len=length, global_batch=batch)
        return self.request.model_copy(update={"workload": changed})

    def with_request(self, request: SearchRequest) -> Ask:
        """The same limits around another request."""
        return replace(self, request=request)

    def _default_batch(self, seq_len: int) -> int:
        return default_global_batch(seq_len, self.request.hardware, self.most_devices)

    def pieces(self, longest: int) -> Iterator[Piece]:
        """Lengths up to ``longest`` from the top, cut where the default batch changes; one piece where it does not."""
        if self.batch_given or self.request.hardware.kind == "cpu":
            yield Piece(self.at(seq_len=longest).workload.global_batch, 0, longest)
            return
        batch, tokens = self._default_batch(longest), default_tokens(self.request.hardware, self.most_devices)
        while (high := min(longest, tokens // batch)) >= TILE_TOKENS or batch == 1:
            low, top = tokens // (batch + 1), longest if batch == 1 else high
            if top // TILE_TOKENS > low // TILE_TOKENS:
                yield Piece(batch, low, top)
            batch += 1


def length_unit(context: int, tensor: int) -> int:
    """The step in which lengths of a mesh are searched: whole tiles a context rank, each split evenly over tensor.

    >>> length_unit(8, 2), length_unit(8, 5)
    (1024, 5120)
    """
    return context * lcm(TILE_TOKENS, tensor)
