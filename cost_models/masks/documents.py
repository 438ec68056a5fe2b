"""Packed sequences: what attention inside documents leaves of the causal work, and what of the rest kernels still compute.

Every kernel leaves out chunks of other ranks that share no document with a rank's queries. Inside a chunk only blockwise
attention leaves out blocks; cuDNN's and splash compute what they would without documents.
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
"""The blocks that are strategies/kernels/blockwise.py's own [tokens]."""

Ints = NDArray[np.int64]


def document_pairs(seq_len: float, *, document_len: int | None, window: int | None = None) -> float:
    """Scores of one head that attention needs of a packed sequence, in the convention that halves causal attention.

    ``n p(m) + p(r)`` for ``T = n m + r``, documents of m tokens one after another, the last of what is left: ``p(m)`` is
    ``m^2 / 2``, with a sliding window ``W m - W^2 / 2``.

    Parameters
    ----------
    seq_len : float
        T [tokens].
    document_len : int or None
        m [tokens], above 0; None, or more than T: one document.
    window : int, optional
        W, keys that a query sees [tokens]; None: all before it.

    Returns
    -------
    float
        Scores [count per head and sequence], at most ``T^2 / 2``.

    Notes
    -----
    All documents equally long: where their lengths vary by v times their mean, the sum is ``1 + v^2`` times as large.
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
    """A sequence in ``count`` chunks of ``length`` tokens, each one contiguous run or, with ``zigzag``, two.

    ``largest`` are the largest blocks of queries and of keys that the kernel takes [tokens].

    Source: docs/step.md, schemes.
    """

    count: int
    length: int
    zigzag: bool
    largest: tuple[int, int] = BLOCKS

    def blocks(self, chunks: Ints, span: tuple[int, int], largest: int) -> tuple[Ints, Ints, int]:
        """First and last token of each block of ``span`` in each of ``chunks``, and the size of a block [tokens]."""
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
    """Keys that attention computes for a query, of its own chunk and of all others together, by chunk.

    Blockwise, a block of queries walks over whole blocks of keys, from the first to the last that shares a document with it;
    in its own chunk no further than the diagonal. Of another chunk it is offered what the scheme's mask leaves: all of an
    earlier one, or of a zigzag's, whose first half the queries see whole, or whose keys the second half of the queries sees.

    Parameters
    ----------
    chunks : Chunks
        Layout of the sequence, lengths in tokens.
    document_len : int
        m, tokens of every document [tokens].
    whole : bool
        The spans that the scheme's mask leaves are one block each: a kernel computes all of one or nothing.

    Returns
    -------
    tuple of ndarray, shape [c] each
        Mean keys a query of the chunk [tokens]: own, others.

    Notes
    -----
    Source: strategies/kernels/tiles.py, and ``where_shared`` of strategies/schemes/documents.py, counted as they count; tests
    hold both against each other.

    Examples
    --------
    >>> own, others = visited_keys(Chunks(count=4, length=4096, zigzag=False), 4096)  # a document a chunk
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


Part = tuple[Ints, tuple[int, int]]
"""A span of some chunks."""


def _area(chunks: Chunks, document_len: int, *parts: Part, largest: tuple[int, int], causal: bool = False) -> float:
    """Queries times keys of the blocks that are computed, of one chunk's queries.

    Ids rise along a chunk, so the blocks of keys from the first to the last that shares one of a to b are those that do not
    begin after b, less those that end before a: of all chunks together.
    """
    (queries, q_span), (keys, k_span) = parts
    q_first, q_last, q_size = chunks.blocks(queries, q_span, largest[0])
    k_first, k_last, k_size = chunks.blocks(keys, k_span, largest[1])
    start = np.searchsorted(np.sort(k_last.reshape(-1)) // document_len, q_first[0] // document_len, side="left")
    end = np.searchsorted(np.sort(k_first.reshape(-1)) // document_len, q_last[0] // document_len, side="right")
    if causal:
        end = np.minimum(end, (np.arange(1, len(end) + 1) * q_size - 1) // k_size + 1)
    return float(np.maximum(end - start, 0).sum()) * q_size * k_size


@lru_cache(maxsize=4096)
def _paces(chunks: Chunks, document_len: int, whole: bool) -> tuple[float, float, float, float]:
    """Own and others' keys of the slowest chunk, and of the mean one."""
    own, others = visited_keys(chunks, document_len, whole=whole)
    slowest = int(np.argmax(own + others))
    return float(own[slowest]), float(others[slowest]), float(own.mean()), float(others.mean())


def document_keys(layout: Layout, *, mean: bool) -> tuple[Floats, Floats]:
    """Keys that the setting's kernel computes for a query of a rank, of its own chunk and of all others together.

    Parameters
    ----------
    layout : Layout
        Candidates of a workload with documents.
    mean : bool
        Of all ranks on average; else of the slowest, which sets the pace.

    Returns
    -------
    tuple of ndarray, shape [n] each
        Mean keys a query [tokens]: own (of a kernel that leaves out no blocks all of them), others.

    Notes
    -----
    Source: ``visited_keys``, for each layout that occurs.
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
