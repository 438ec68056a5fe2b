"""Sliding windows inside documents: the keys that are left where a kernel leaves out what either mask hides.

Blockwise attention does: its blocks of queries walk over the blocks of keys from the first that both the window and the
document reach. cuDNN's and splash compute what the window alone leaves (``cost_models.masks.windows``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cost_models.inputs.layout import Floats, Layout
from cost_models.masks.documents import BLOCKS
from cost_models.masks.tiles import tiles
from cost_models.masks.windows import Halo
from lcplan.strategy.tile_sizes import block_size


@dataclass(frozen=True)
class Runs:
    """A sequence in ``count`` runs of ``length`` tokens, each with up to ``halo`` tokens before it in a kernel call of its own.

    Where a rank holds two runs, the first of rank r is run r and the second is run ``count - 1 - r``. ``largest`` are the
    largest blocks of queries and of keys that the kernel takes [tokens].

    Source: docs/step.md, sliding windows.
    """

    count: int
    length: int
    halo: int
    largest: tuple[int, int] = BLOCKS


def visited_window_keys(runs: Runs, *, window: int, document_len: int) -> Floats:
    """Mean keys that a query is multiplied by, by run: of the whole blocks that its document and its window leave.

    A block of queries from a to b meets the key blocks from that of a's first token, ``max(a - W + 1, m (a // m))``, to that
    of b. A run's keys begin with its halo, as far as the sequence reaches back.

    Parameters
    ----------
    runs : Runs
        Layout of the sequence, lengths in tokens.
    window : int
        W, keys that a query sees [tokens].
    document_len : int
        m, tokens of every document [tokens].

    Returns
    -------
    ndarray, shape [runs]
        Keys [tokens].

    Notes
    -----
    Source: strategies/kernels/tiles.py and strategies/schemes/window.py, counted as they count; a test holds both against each
    other.

    Examples
    --------
    >>> visited_window_keys(Runs(4, 512, 128, (128, 128)), window=128, document_len=1024).tolist()
    [224.0, 256.0, 224.0, 256.0]
    """
    keys = np.zeros(runs.count)
    starts = runs.length * np.arange(runs.count)
    halos = np.minimum(runs.halo, starts)
    size = block_size(runs.length, largest=runs.largest[0])
    for halo in np.unique(halos):
        same = halos == halo
        block = block_size(int(halo) + runs.length, largest=runs.largest[1])
        first = starts[same, None] + np.arange(0, runs.length, size)  # of each block of queries
        origin = starts[same, None] - halo
        seen = np.maximum(np.maximum(first - window + 1, first // document_len * document_len), origin)
        blocks = (first + size - 1 - origin) // block - (seen - origin) // block + 1
        keys[same] = blocks.mean(axis=1) * block
    return keys


@lru_cache(maxsize=4096)
def _paces(runs: Runs, halves: bool, window: int, document_len: int) -> tuple[float, float]:
    """Keys of the slowest rank, and of the mean one."""
    keys = visited_window_keys(runs, window=window, document_len=document_len)
    ranks = (keys + keys[::-1])[: runs.count // 2] / 2.0 if halves else keys
    return float(ranks.max()), float(ranks.mean())


def window_document_keys(layout: Layout, *, mean: bool) -> Floats:
    """Keys that blockwise attention computes for a query of a windowed layer of packed sequences.

    Parameters
    ----------
    layout : Layout
        Candidates of a workload with documents; layers that are alike and have a window.
    mean : bool
        Of all ranks on average; else of the slowest, which sets the pace.

    Returns
    -------
    ndarray, shape [n]
        Mean keys a query [tokens].

    Notes
    -----
    Source: ``visited_window_keys``, for each layout that occurs.
    """
    length, window, halo = layout.setting.workload.document_len, layout.window, Halo(layout)
    assert length is not None, "only packed sequences are counted here"
    assert window is not None, "only windowed layers are counted here"
    sizes = [layout.chunks * (1.0 + halo.halves), np.maximum(1.0, halo.chunk), halo.tokens, halo.halves, *tiles(layout)]
    rows = np.stack([np.asarray(size, dtype=np.int64) for size in sizes], axis=1)
    different, places = np.unique(rows, axis=0, return_inverse=True)
    paces = [
        _paces(Runs(count, run, before, (queries, keys)), bool(halves), int(window), length)
        for count, run, before, halves, queries, keys in different.tolist()
    ]
    found: Floats = np.array(paces).reshape(-1, 2)[places.reshape(-1), int(mean)]
    return found
