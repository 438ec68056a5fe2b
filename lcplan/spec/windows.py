"""Sliding windows: the layers of a model that have one, and the halo that a chunk of the sequence needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field

from lcplan.formats.frozen import Frozen

HALO_TILE = 128
"""A halo is whole tiles of this many tokens: the lanes of a TPU and the query tile of fused kernels (arXiv:2307.08691)."""
Layers = Annotated[int, Field(ge=0, le=4096)]


class WindowPattern(Frozen):
    """``first_full`` layers without the window, then ``windowed`` layers with it and ``full`` without, over and over.

    The last period may be cut off. Gemma 2 and gpt-oss: 1 and 1. Gemma 3: 5 and 1. Qwen2's ``max_window_layers``: that
    number of ``first_full`` layers, then all windowed.

    >>> [WindowPattern(windowed=2, full=1).of(layer) for layer in range(5)]
    [True, True, False, True, True]
    """

    first_full: Layers = 0
    windowed: Annotated[int, Field(gt=0, le=4096)] = 1
    full: Layers = 0

    def of(self, layer: int) -> bool:
        """Whether layer number ``layer``, counted from 0, has the window."""
        return layer >= self.first_full and (layer - self.first_full) % (self.windowed + self.full) < self.windowed

    @classmethod
    def from_layers(cls, windowed: Sequence[bool]) -> Self | None:
        """The pattern of these layers in order, at least one of them windowed; None where they are in no such order.

        >>> WindowPattern.from_layers([True, False, True, False])
        WindowPattern(first_full=0, windowed=1, full=1)
        >>> WindowPattern.from_layers([False, True, True])
        WindowPattern(first_full=1, windowed=1, full=0)
        """
        first = list(windowed).index(True)
        runs = _run_lengths(windowed[first:])
        sizes = (1, 0) if len(runs) == 1 else (runs[0], runs[1])
        pattern = cls(first_full=first, windowed=sizes[0], full=sizes[1])
        return pattern if [pattern.of(layer) for layer in range(len(windowed))] == list(windowed) else None


def _run_lengths(values: Sequence[bool]) -> list[int]:
    """Lengths of the runs of equal values."""
    ends = [i + 1 for i in range(len(values)) if i + 1 == len(values) or values[i] != values[i + 1]]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


def halo_pieces(window: int, *, chunk: int, chunks: int) -> tuple[int, ...]:
    """Tokens that a chunk needs of each chunk before it, the nearest first, so that its queries have their window.

    Whole tiles, and never more than the chunk; of ``chunks`` chunks at most all others.

    >>> [halo_pieces(4096, chunk=chunk, chunks=n) for chunk, n in ((16384, 8), (1536, 8), (1024, 3))]
    [(4096,), (1536, 1536, 1024), (1024, 1024)]
    """
    pieces: list[int] = []
    while len(pieces) < chunks - 1 and (need := window - 1 - chunk * len(pieces)) > 0:
        pieces.append(min(chunk, -(-need // HALO_TILE) * HALO_TILE))
    return tuple(pieces)
