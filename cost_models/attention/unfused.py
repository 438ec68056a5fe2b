"""Attention that writes all scores to memory: products, softmax and dropout are separate kernels."""

from __future__ import annotations

from cost_models.inputs.layout import Floats

SCORE_BYTES = {"forward": 13.0, "backward": 19.0, "again": 11.0}
"""Traffic of one half-precision score.

Forward: the first product writes it; softmax reads and writes; dropout reads, writes and keeps a mask of one byte; the second
product reads it. Backward: a product writes the weights' cotangent; dropout reads it and its mask and writes; the values'
gradient reads the weights; softmax reads both and writes; the last two products read the result. Again (selective
recomputation): the forward traffic without the last read.
"""

PRODUCTS = {"forward": 2.0, "backward": 4.0, "again": 1.0}
"""Products over all scores."""


def unfused_seconds(scores: Floats, head_dim: float, *, which: str, flop_per_s: float, hbm_bytes_per_s: float) -> Floats:
    """Return the time of one pass of unfused attention.

    ``2 p S H / R + b S / B``: the products, then the traffic of the scores, masked scores included.

    Parameters
    ----------
    scores : ndarray
        S, scores of the device, including masked scores [count].
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
    Source: Korthikanti et al. (arXiv:2205.05198), section 4.1 and figure 3, for the tensors that unfused attention stores.

    Examples
    --------
    >>> float(unfused_seconds(1e9, 100.0, which="forward", flop_per_s=4e14, hbm_bytes_per_s=1.3e12))
    0.011
    """
    products = 2.0 * PRODUCTS[which] * scores * head_dim / flop_per_s
    return products + SCORE_BYTES[which] * scores / hbm_bytes_per_s
