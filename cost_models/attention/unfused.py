"""Attention whose scores go through memory whole: products, softmax and dropout as kernels of their own."""

from __future__ import annotations

from cost_models.inputs.layout import Floats

SCORE_BYTES = {"forward": 13.0, "backward": 19.0, "again": 11.0}
"""Traffic of one half-precision score. Forward: written by the first product; softmax reads and writes; dropout reads, writes
and keeps a mask of one byte; read by the second product. Backward: the weights' cotangent written; dropout reads it and its
mask and writes; the weights read for the values' gradient; softmax reads both and writes; read twice by the last two
products. Again (selective recomputation): the forward's but for the last read."""

PRODUCTS = {"forward": 2.0, "backward": 4.0, "again": 1.0}
"""Products over all scores."""


def unfused_seconds(scores: Floats, head_dim: float, *, which: str, flop_per_s: float, hbm_bytes_per_s: float) -> Floats:
    """Time of one pass of unfused attention.

    ``2 p S H / R + b S / B``: the products, then what moves the scores; nothing of the causal half is saved.

    Parameters
    ----------
    scores : ndarray
        S, scores of the device, masked ones too [count].
    head_dim : float
        H, features of a head.
    which : str
        ``forward``, ``backward`` or ``again``.
    flop_per_s : float
        R, rate of matrix products [FLOP/s].
    hbm_bytes_per_s : float
        B, achieved memory bandwidth [bytes/s].

    Returns
    -------
    ndarray
        Time [s].

    Notes
    -----
    Source: Korthikanti et al. (arXiv:2205.05198), section 4.1 and figure 3, for what unfused attention stores.

    Examples
    --------
    >>> float(unfused_seconds(1e9, 100.0, which="forward", flop_per_s=4e14, hbm_bytes_per_s=1.3e12))
    0.011
    """
    products = 2.0 * PRODUCTS[which] * scores * head_dim / flop_per_s
    return products + SCORE_BYTES[which] * scores / hbm_bytes_per_s
