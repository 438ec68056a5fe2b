"""Sliding windows: the keys that a windowed layer's kernel computes, and the halo that its chunks need from earlier ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cost_models.inputs.layout import Floats, Layout
from cost_models.masks.tiles import tiles
from lcplan.spec.windows import HALO_TILE


def window_pairs(window: float, seq_len: float) -> float:
    """Return the scores per head that a windowed layer needs in a sequence, in the convention that halves causal attention.

    ``W T - W^2 / 2``: every token sees W keys, except that the first W tokens see a triangle. The exact count is
    ``W T - W (W - 1) / 2``. As in the causal half ``T^2 / 2``, the diagonal of the triangle counts half, so that a window as
    long as the sequence costs the same as no window.

    Parameters
    ----------
    window : float
        W, keys that a query sees, including its own [tokens].
    seq_len : float
        T [tokens].

    Returns
    -------
    float
        Scores [count per head and sequence].

    Notes
    -----
    Source: counted; Beltagy et al., Longformer (arXiv:2004.05150), section 3.1, for O(T W).

    Examples
    --------
    >>> window_pairs(4.0, 10.0), window_pairs(10.0, 10.0), window_pairs(99.0, 10.0)
    (32.0, 50.0, 50.0)
    """
    seen = min(window, seq_len)
    return seen * seq_len - seen**2 / 2.0


def window_tile_keys(window: Floats | float, *, queries: Floats | float, keys: Floats | float) -> Floats:
    """Return the mean keys per query of a kernel that computes every tile inside the window whole.

    ``max(q, k) + min(q, k) ceil((W - 1) / min(q, k))``: a block of q queries visits the key blocks from that of its first
    query's oldest key to that of its last query. Exact where one block size divides the other.

    Parameters
    ----------
    window : ndarray or float
        W, keys that a query sees [tokens].
    queries : ndarray or float
        q, queries of a tile [tokens].
    keys : ndarray or float
        k, keys of a tile [tokens].

    Returns
    -------
    ndarray
        Keys [tokens].

    Notes
    -----
    Valid for a query whose window is inside the sequence; the first W queries see fewer keys. Source: counted from the tiles
    (strategies/kernels/tiles.py); a test counts them one by one.

    Examples
    --------
    >>> float(window_tile_keys(4096.0, queries=128.0, keys=128.0)), float(window_tile_keys(1.0, queries=512.0, keys=1024.0))
    (4224.0, 1024.0)
    """
    small, large = np.minimum(queries, keys), np.maximum(queries, keys)
    return np.asarray(large + small * np.ceil((np.asarray(window) - 1.0) / small))


@dataclass(frozen=True)
class Halo:
    """Tokens that a windowed layer's chunks need from earlier chunks; columns of shape ``[n]``, 0 without a halo.

    Contiguous chunks need the last tokens of the previous chunk, or several whole chunks and a part of one. Where a rank holds
    two half chunks (a balanced scheme), each half needs the last tokens of the half before it, which a neighbour holds. Groups
    of ranks that exchange heads hold such halves of a group's chunk. If all ranks exchange heads, they see whole sequences.

    Source: docs/step.md, sliding windows; strategies/schemes.
    """

    layout: Layout

    @cached_property
    def halves(self) -> Floats:
        """1 where a rank, or the group with which it exchanges heads, holds two half chunks, else 0 [count]."""
        return self.layout.scheme_has(lambda facts: facts.balanced).astype(np.float64)

    @cached_property
    def _windowed(self) -> Floats:
        context = self.layout.scheme_has(lambda facts: not facts.sees_whole_sequences).astype(np.float64)
        return context if self.layout.window is not None else np.zeros_like(context)

    @cached_property
    def chunk(self) -> Floats:
        """Tokens of one contiguous run of the sequence among a rank's queries [tokens]."""
        return self.layout.local_length * self.layout.exchange / (1.0 + self.halves)

    @cached_property
    def _before(self) -> float:
        """Tokens that a query sees before its own."""
        return (self.layout.window or 1.0) - 1.0

    @cached_property
    def hops(self) -> Floats:
        """Earlier chunks from which a rank needs tokens, at most all others [count]."""
        reach = np.minimum(np.ceil(self._before / self.chunk), self.layout.chunks - 1.0)
        return self._windowed * np.where(self.halves > 0, np.minimum(reach, 1.0), reach)

    @cached_property
    def last(self) -> Floats:
        """Tokens needed of the farthest of these chunks, in whole tiles; nearer chunks are needed whole [tokens]."""
        left = self._before - self.chunk * (self.hops - 1.0)
        return np.where(self.hops > 0, np.minimum(self.chunk, np.ceil(left / HALO_TILE) * HALO_TILE), 0.0)

    @cached_property
    def tokens(self) -> Floats:
        """Tokens of the halo of one run [tokens]."""
        return np.maximum(self.hops - 1.0, 0.0) * self.chunk + self.last

    @cached_property
    def share(self) -> Floats:
        """Halo tokens of a rank over its own tokens [ratio]."""
        return self.tokens / self.chunk

    @cached_property
    def padded(self) -> Floats | float:
        """Queries that a kernel computes over the queries of the rank: cuDNN needs as many queries as keys [ratio]."""
        return 1.0 + (self.share if self.layout.setting.kernel == "cudnn" else 0.0)

    @cached_property
    def keys(self) -> Floats:
        """Mean keys per query on the slowest rank; the halo of the first ranks is shorter [tokens]."""
        layout, window = self.layout, self.layout.window or 1.0
        length = layout.local_length * layout.exchange
        queries, keys = (np.minimum(size, length) for size in tiles(layout))
        steady = window_tile_keys(window, queries=queries, keys=keys)
        reach, small = steady - np.maximum(queries, keys), np.minimum(queries, keys)
        triangle = np.where(self.hops > 0, 0.0, reach * (reach + small) / 2.0 / length)  # tiles before the sequence
        whole = (length + (np.minimum(keys, length) if layout.setting.kernel == "blockwise" else 0.0)) / 2.0
        return np.minimum(steady - triangle, np.where(self.hops > 0, np.inf, whole))
