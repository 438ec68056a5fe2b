"""Packed sequences: the causal work inside documents, and the masked work that kernels still compute.

Every kernel skips chunks of other ranks that share no document with a rank's queries. Inside a chunk only blockwise attention
skips blocks; cuDNN and splash compute the same scores as without documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from cost_models.inputs.layout import Floats, Layout
from cost_models.masks.tiles import tiles
from cost_models.masks.windows import window_pairs
from lcplan.strategy import ATTENTION_BLOCK
from lcplan.strategy.tile_sizes import block_size

BLOCKS = ATTENTION_BLOCK, 2 * ATTENTION_BLOCK
"""Default blocks of strategies/kernels/blockwise.py [tokens]."""

Ints = NDArray[np.int64]


def document_pairs(seq_len: float, *, document_len: int | None, window: int | None = None) -> float:
    """Return the scores per head that attention needs in a packed sequence, in the convention that halves causal attention.

    ``n p(m) + p(r)`` for ``T = n m + r``: n documents of m tokens, then one of the remaining r. ``p(m)`` is ``m^2 / 2``, with a
    sliding window ``W m - W^2 / 2``.

    Parameters
    ----------
    seq_len : float
        T [tokens].
    document_len : int or None
        m [tokens], above 0; None, or more than T: one document.
    window : int, optional
        W, keys that a query sees [tokens]; None: all keys up to its own.

    Returns
    -------
    float
        Scores [count per head and sequence], at most ``T^2 / 2``.

    Notes
    -----
    Assumes documents of equal length: with a coefficient of variation v, the sum is ``1 + v^2`` times as large.
    Source: Megatron-LM, ``num_floating_point_operations``, which counts packed sequences by the sum of squared lengths
    (``seqlen_squared_sum_in_batch``), as Megatron-Bridge does since pull request 3839.

    Examples
    --------
    >>> document_pairs(10.0, document_len=None), document_pairs(10.0, document_len=4)  # (16 + 16 + 4) / 2
    (50.0, 18.0)
    """
    length = seq_len if document_len is None else min(float(document_len), seq_len)
    count, rest = divmod(seq_len, length) if length else (0.0, 0.0)
    each, last = (window_pairs(size if window is None else float(window), size) for size in (length, rest))
    return count * each + last


@dataclass(frozen=True)
class Chunks:
    """A sequence in ``count`` chunks of ``length`` tokens, each of one contiguous run or, with ``zigzag``, of two.

    ``largest`` are the largest blocks of queries and of keys that the kernel takes [tokens].

    Source: docs/step.md, schemes.
    """

    count: int
    length: int
    zigzag: bool
    largest: tuple[int, int] = BLOCKS

    def blocks(self, chunks: Ints, span: tuple[int, int], largest: int) -> tuple[Ints, Ints, int]:
        """Return the first and last token of each block of ``span`` in each of ``chunks``, and the block size [tokens]."""
        start, end = span
        size = block_size(end - start, largest=largest)
        run = self.length // 2 if self._halved else self.length
        first = np.arange(start, end, size)
        return self._position(chunks, first, run), self._position(chunks, first + size - 1, run), size

    def _position(self, chunks: Ints, index: Ints, run: int) -> Ints:
        ahead = chunks[:, None] * run + index
        if not self._halved:
            return ahead
        return np.where(index < run, ahead, (2 * self.count - 1 - chunks)[:, None] * run + index - run)

    @property
    def _halved(self) -> bool:
        return self.zigzag and self.count > 1


def visited_keys(chunks: Chunks, document_len: int, *, whole: bool = False) -> tuple[Floats, Floats]:
    """Return the keys that attention computes for a query by chunk, in its own chunk and in all others together.

    In blockwise attention a block of queries visits whole blocks of keys, from the first to the last that shares a document
    with it; in its own chunk it stops at the diagonal. In other chunks it visits the keys that the scheme's mask allows. For
    contiguous chunks these are all keys of earlier chunks. For zigzag all queries see the first half of earlier chunks, and the
    second half of the queries sees all keys of later chunks.

    Parameters
    ----------
    chunks : Chunks
        Layout of the sequence, lengths in tokens.
    document_len : int
        m, tokens of every document [tokens].
    whole : bool
        Whether each span that the scheme's mask allows is one block, which a kernel computes whole or skips.

    Returns
    -------
    tuple of ndarray, shape [c] each
        Mean keys per query of the chunk [tokens]: own, others.

    Notes
    -----
    Source: strategies/kernels/tiles.py, and ``where_shared`` of strategies/schemes/documents.py, which count the same way;
    tests compare them.

    Examples
    --------
    >>> own, others = visited_keys(Chunks(count=4, length=4096, zigzag=False), 4096)  # one document per chunk
    >>> own.tolist(), others.tolist()
    ([2560.0, 2560.0, 2560.0, 2560.0], [0.0, 0.0, 0.0, 0.0])
    """
    span, half = (0, chunks.length), chunks.length // 2
    area = partial(_area, chunks, document_len, largest=(chunks.length,) * 2 if whole else chunks.largest)
    own, others = np.zeros(chunks.count), np.zeros(chunks.count)
    every = np.arange(chunks.count)
    for place in range(chunks.count):
        here = np.array([place])
        own[place] = area((here, span), (here, span), causal=True)
        before, after = every[:place], every[place + 1 :]
        if not chunks.zigzag:
            others[place] = area((here, span), (before, span))
        elif half:
            others[place] = area((here, span), (before, (0, half))) + area((here, (half, chunks.length)), (after, span))
    return own / chunks.length, others / chunks.length


ChunkSpan = tuple[Ints, tuple[int, int]]
"""Some chunks, and a span of tokens in each."""


def _area(chunks: Chunks, document_len: int, *spans: ChunkSpan, largest: tuple[int, int], causal: bool = False) -> float:
    """Return queries times keys of the blocks that are computed for one chunk's queries.

    Document ids rise along a chunk. The visited blocks for documents a to b are therefore all blocks that begin by b, less the
    blocks that end before a, over all chunks.
    """
    (queries, q_span), (keys, k_span) = spans
    q_first, q_last, q_size = chunks.blocks(queries, q_span, largest[0])
    k_first, k_last, k_size = chunks.blocks(keys, k_span, largest[1])
    start = np.searchsorted(np.sort(k_last.reshape(-1)) // document_len, q_first[0] // document_len, side="left")
    end = np.searchsorted(np.sort(k_first.reshape(-1)) // document_len, q_last[0] // document_len, side="right")
    if causal:
        end = np.minimum(end, (np.arange(1, len(end) + 1) * q_size - 1) // k_size + 1)
    return float(np.maximum(end - start, 0).sum()) * q_size * k_size


@lru_cache(maxsize=4096)
def _paces(chunks: Chunks, document_len: int, whole: bool) -> tuple[float, float, float, float]:
    """Return own and others' keys of the slowest chunk, and their means over chunks."""
    own, others = visited_keys(chunks, document_len, whole=whole)
    slowest = int(np.argmax(own + others))
    return float(own[slowest]), float(others[slowest]), float(own.mean()), float(others.mean())


def document_keys(layout: Layout, *, mean: bool) -> tuple[Floats, Floats]:
    """Return the keys that the setting's kernel computes per query, in its rank's own chunk and in all others together.

    Parameters
    ----------
    layout : Layout
        Candidates of a workload with documents.
    mean : bool
        Average over all ranks; else the slowest rank.

    Returns
    -------
    tuple of ndarray, shape [n] each
        Mean keys per query [tokens]: own (all keys for a kernel that skips no blocks), others.

    Notes
    -----
    Source: ``visited_keys``, once per distinct layout.
    """
    work, zigzag = layout.setting.workload, ~layout.scheme_has(lambda facts: not facts.balanced)
    assert work.document_len is not None, "only packed sequences are counted here"
    lengths = np.maximum(1, layout.local_length * layout.exchange).astype(np.int64)
    blocks = [side.astype(np.int64) for side in tiles(layout)]
    keys = np.stack([layout.chunks.astype(np.int64), lengths, zigzag.astype(np.int64), *blocks], axis=1)
    different, places = np.unique(keys, axis=0, return_inverse=True)
    whole = layout.setting.kernel != "blockwise"
    all_chunks = [Chunks(c, length, bool(z), (q, k)) for c, length, z, q, k in different.tolist()]
    paces = [_paces(chunks, work.document_len, whole) for chunks in all_chunks]
    found = np.array(paces).reshape(-1, 4)[places.reshape(-1)]
    return (found[:, 2], found[:, 3]) if mean else (found[:, 0], found[:, 1])
