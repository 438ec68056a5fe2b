"""Sliding windows inside documents: the keys that a kernel computes if it skips blocks that either mask hides.

Blockwise attention does so: a block of queries visits blocks of keys from the first that both window and document reach. cuDNN
and splash compute the same keys as with only the window (``cost_models.masks.windows``).
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
    """A sequence in ``count`` runs of ``length`` tokens; the kernel call of each includes up to ``halo`` earlier tokens.

    Where a rank holds two runs, the first of rank r is run r and the second is run ``count - 1 - r``. ``largest`` are the
    largest blocks of queries and of keys that the kernel takes [tokens].

    Source: docs/step.md, sliding windows.
    """

    count: int
    length: int
    halo: int
    largest: tuple[int, int] = BLOCKS


def visited_window_keys(runs: Runs, *, window: int, document_len: int) -> Floats:
    """Return the mean keys per query by run, over the whole blocks that document and window allow.

    A block of queries from a to b visits the key blocks from that of the first key of a, ``max(a - W + 1, m (a // m))``, to
    that of b. A run's keys begin with its halo, which is shorter at the start of the sequence.

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
    Source: strategies/kernels/tiles.py and strategies/schemes/window.py, which count the same way; a test compares them.

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
    """Return the keys of the slowest rank, and the mean over ranks."""
    keys = visited_window_keys(runs, window=window, document_len=document_len)
    ranks = (keys + keys[::-1])[: runs.count // 2] / 2.0 if halves else keys
    return float(ranks.max()), float(ranks.mean())


def window_document_keys(layout: Layout, *, mean: bool) -> Floats:
    """Return the keys that blockwise attention computes per query of a windowed layer in packed sequences.

    Parameters
    ----------
    layout : Layout
        Candidates of a workload with documents, with layers of one kind that have a window.
    mean : bool
        Average over all ranks; else the slowest rank.

    Returns
    -------
    ndarray, shape [n]
        Mean keys per query [tokens].

    Notes
    -----
    Source: ``visited_window_keys``, once per distinct layout.
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
