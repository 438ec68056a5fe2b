"""Tiles of attention kernels: blockwise JAX, splash and cuDNN."""

from __future__ import annotations

import numpy as np

from cost_models.inputs.layout import Floats, Layout
from lcplan.strategy import ATTENTION_BLOCK

CACHED_BYTES = 2.0**23
SPILLED = 2.0
KEYS_OF_QUERIES = 2.0
"""Keys of a blockwise tile over its queries (strategies/kernels/blockwise.py)."""
FLASH_TILE = 128.0
"""Queries and keys of a tile of cuDNN's kernels, as in flash attention (arXiv:2307.08691, section 3.3)."""


def tiles(layout: Layout) -> tuple[Floats, Floats]:
    """Return the queries and keys of the tiles that the kernel computes whole or skips, for chunks that are long enough.

    Blockwise ``(b, 2 b)``, splash ``(b, b)``: b is the strategy's ``attention_block`` or, where that is 0, 512. cuDNN
    ``(128, 128)``.

    Parameters
    ----------
    layout : Layout
        Candidates.

    Returns
    -------
    tuple of two ndarrays, shape [n]
        Queries, keys [tokens].

    Notes
    -----
    Source: strategies/kernels/blockwise.py and splash.py; docs/step.md, "Attention in a chunk"; ``FLASH_TILE``.
    """
    block = layout.table.attention_block
    queries = np.where(block > 0, block, ATTENTION_BLOCK).astype(np.float64)
    match layout.setting.kernel:
        case "blockwise":
            return queries, KEYS_OF_QUERIES * queries
        case "splash":
            return queries, queries
    whole = np.full(len(block), FLASH_TILE)
    return whole, whole


def chunk_tiles(layout: Layout) -> tuple[Floats, Floats]:
    """Return ``tiles``, limited to the length of the chunk.

    Parameters
    ----------
    layout : Layout
        Candidates.

    Returns
    -------
    tuple of two ndarrays, shape [n]
        Queries, keys [tokens].

    Notes
    -----
    Source: strategies/kernels; ranks that exchange heads have the tokens of all of them.
    """
    length = layout.local_length * layout.exchange
    queries, keys = tiles(layout)
    return np.minimum(queries, length), np.minimum(keys, length)


def causal_block_keys(length: Floats, block: Floats) -> Floats:
    """Return the mean keys per query of a causal chunk where the kernel computes whole blocks.

    ``(l + min(l, b)) / 2``: every query is multiplied with all keys up to the end of its own key block.

    Parameters
    ----------
    length : ndarray
        l, tokens of the chunk [tokens].
    block : ndarray
        b, keys of a block [tokens].

    Returns
    -------
    ndarray
        Keys [tokens].

    Notes
    -----
    Source: strategies/kernels/blockwise.py, ``keys_end``, for lengths that are below b or that b divides.

    Examples
    --------
    >>> [float(causal_block_keys(np.array(length), np.array(1024.0))) for length in (256.0, 1024.0, 4096.0)]
    [256.0, 1024.0, 2560.0]
    """
    return (length + np.minimum(length, block)) / 2.0


def spill_ratio(tile_bytes: Floats) -> Floats:
    """Return the time of blockwise attention on a CPU over its time with tiles that fit in the cache.

    Parameters
    ----------
    tile_bytes : ndarray
        fp32 scores of one tile, over all sequences and heads of a device [bytes].

    Returns
    -------
    ndarray
        Ratio [no unit]: 1, or ``SPILLED`` above ``CACHED_BYTES``.

    Notes
    -----
    Source: lcplan's own measurement, 2026-11-28: chunks of 512 and 1024 tokens, 8 heads of 32, fp32, 8 host devices on two
    cores of a Xeon with 2 MiB of second-level cache each, jax 0.10.1. CPU time per score with tiles of 512 x 1024 (16 MiB) over
    that with tiles of 128 x 256 (1 MiB) is 1.9 forward and 2.1 backward; 4 MiB costs no more than 1 MiB.

    Examples
    --------
    >>> spill_ratio(np.array([2.0**20, 2.0**24])).tolist()
    [1.0, 2.0]
    """
    return np.where(tile_bytes > CACHED_BYTES, SPILLED, 1.0)
