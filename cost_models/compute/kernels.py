"""Time of one kernel: matrix products, attention in a chunk, memory-bound operations."""

from __future__ import annotations

import numpy as np

from cost_models.inputs.layout import Floats

SCORE_BYTES = {"forward": 16.0, "backward": 28.0}
"""Traffic of one score through memory in blockwise attention, counted from strategies/kernels/blockwise.py.

Forward: fp32 scores are written, then read by the maximum and by the exponential; bf16 weights are written and read. Backward:
the same again; the scores' cotangent is written and read in fp32, then written once and read twice in bf16.
"""

BIAS_BYTES = 2.0
"""Traffic of one score's bias, in which cuDNN takes documents (strategies/kernels/cudnn.py): bf16, read by every head."""

BACKWARD_ATTENTION_OF_FORWARD = 2.5
"""Work of flash attention's backward kernel over the forward: five products against two (arXiv:2307.08691, section 3.2)."""


EXPONENTIAL_SHARE = 0.5
"""Cycles of a score's exponential over those of its products with heads of 128 on an H100 (arXiv:2407.08608, section 2.3)."""


def gemm_seconds(flop: Floats, traffic_bytes: Floats, *, flop_per_s: float, hbm_bytes_per_s: float) -> Floats:
    """Return the time of matrix products that move ``traffic_bytes`` through memory.

    ``max(W / R, Q / B)``: the matrix units or the memory bound it, whichever takes longer.

    Parameters
    ----------
    flop : ndarray
        W, work [FLOP], at least 0.
    traffic_bytes : ndarray
        Q, operands read and results written [bytes], at least 0.
    flop_per_s : float
        R, sustained rate [FLOP/s], above 0.
    hbm_bytes_per_s : float
        B, achieved memory bandwidth [bytes/s], above 0.

    Returns
    -------
    ndarray
        Time [s].

    Notes
    -----
    Ignores tile quantisation and launch. Source: Williams et al., Roofline (CACM 52(4), 2009).

    Examples
    --------
    >>> float(gemm_seconds(np.array(1e12), np.array(1e9), flop_per_s=1e12, hbm_bytes_per_s=1e12))
    1.0
    """
    return np.maximum(flop / flop_per_s, traffic_bytes / hbm_bytes_per_s)


def attention_seconds(flop: Floats, mean_keys: Floats, *, flop_per_s: float, half_tokens: float) -> Floats:
    """Return the time of one attention kernel whose queries attend to ``mean_keys`` keys on average.

    ``W / R * (1 + h / k)``: the rate rises with the keys that a query tile visits, since filling and draining a tile costs
    as much as ``h`` keys.

    Parameters
    ----------
    flop : ndarray
        W, work [FLOP], masked scores not counted.
    mean_keys : ndarray
        k, mean keys per query [tokens], above 0: half the length where causal.
    flop_per_s : float
        R, rate at long length [FLOP/s].
    half_tokens : float
        h, keys at which the rate is half of R [tokens].

    Returns
    -------
    ndarray
        Time [s].

    Notes
    -----
    Source: fitted on cudnn-frontend's llama3.1 rows, 2k-32k, causal and full, within 2-5 % (data/device_rates.json).
    Ignores devices that too few heads leave idle, and the slow-down of long kernels at the power limit.

    Examples
    --------
    >>> float(attention_seconds(np.array(1e12), np.array(500.0), flop_per_s=1e12, half_tokens=500.0))
    2.0
    """
    return flop / flop_per_s * (1.0 + half_tokens / mean_keys)


def head_dim_ratio(head_dim: float, matrix_unit: float = 0.0, *, exponential_share: float = EXPONENTIAL_SHARE) -> float:
    """Return attention's rate with heads of ``head_dim`` over its rate with heads of 128.

    ``(1 + e) / (1 + e 128 / H)``: a score costs one exponential for any number of features. A matrix unit wider than a head
    is partly idle: ``min(1, H / U)``.

    Parameters
    ----------
    head_dim : float
        H, features of a head.
    matrix_unit : float
        U, rows and columns of the matrix unit; 0 where every head fills it.
    exponential_share : float
        e, cycles of a score's exponential over those of its products with heads of 128 [no unit].

    Returns
    -------
    float
        Ratio [no unit].

    Notes
    -----
    Source: Shah et al., FlashAttention-3 (arXiv:2407.08608), section 2.3: at heads of 128 the exponentials of an H100 take
    half the cycles of its products.

    Examples
    --------
    >>> head_dim_ratio(128), head_dim_ratio(64), head_dim_ratio(128, 256)
    (1.0, 0.75, 0.5)
    """
    filled = min(1.0, head_dim / matrix_unit) if matrix_unit else 1.0
    return (1.0 + exponential_share) / (1.0 + exponential_share * 128.0 / head_dim) * filled


def score_seconds(queries: Floats, keys: Floats, *, heads: Floats, score_bytes: float, hbm_bytes_per_s: float) -> Floats:
    """Return the time to move the scores of blockwise attention through memory, one block after another.

    ``q k n s / B``: a kernel that is not fused writes and reads every score.

    Parameters
    ----------
    queries : ndarray
        q, query tokens [tokens].
    keys : ndarray
        k, mean keys per query [tokens].
    heads : ndarray
        n, query heads of the device [count].
    score_bytes : float
        s, traffic of one score [bytes].
    hbm_bytes_per_s : float
        B, achieved memory bandwidth [bytes/s].

    Returns
    -------
    ndarray
        Time [s].

    Notes
    -----
    Ignores that blocks on the diagonal are computed in full. Source: Rabe and Staats (arXiv:2112.05682), memory-efficient
    attention in blocks, whose blocks of scores are in memory; ``SCORE_BYTES`` counts the traffic.

    Examples
    --------
    >>> float(score_seconds(np.array(1e3), np.array(1e3), heads=np.array(1.0), score_bytes=10.0, hbm_bytes_per_s=1e9))
    0.01
    """
    return queries * keys * heads * score_bytes / hbm_bytes_per_s


def attention_flop(queries: Floats, keys: Floats, *, width: Floats) -> Floats:
    """Return the work of forward attention of ``queries`` tokens to ``keys`` keys each on average.

    ``4 q k w``: scores and values, two FLOP per multiply-add.

    Parameters
    ----------
    queries : ndarray
        q, query tokens of all sequences [tokens].
    keys : ndarray
        k, mean keys per query [tokens].
    width : ndarray
        w = N H / t, query features of the device [elements].

    Returns
    -------
    ndarray
        Work [FLOP].

    Notes
    -----
    Source: Dao, FlashAttention-2 (arXiv:2307.08691), section 4.1.

    Examples
    --------
    >>> float(attention_flop(np.array(10.0), np.array(5.0), width=np.array(8.0)))
    1600.0
    """
    return 4.0 * queries * keys * width


def memory_seconds(traffic_bytes: Floats, kernels: Floats | float, *, hbm_bytes_per_s: float, floor_s: float) -> Floats:
    """Return the time of memory-bound operations: that of their traffic, but at least the least time of each kernel.

    ``max(Q / B, k e)``.

    Parameters
    ----------
    traffic_bytes : ndarray
        Q, bytes read and written [bytes].
    kernels : ndarray or float
        k, kernels of these operations [count].
    hbm_bytes_per_s : float
        B, achieved memory bandwidth [bytes/s].
    floor_s : float
        e, least time of one kernel [s].

    Returns
    -------
    ndarray
        Time [s].

    Notes
    -----
    Source: cudnn-frontend, benchmark/norms/results (2026-02): kernels of 8 MB and less take 3 us.

    Examples
    --------
    >>> float(memory_seconds(np.array(1e9), 1.0, hbm_bytes_per_s=1e12, floor_s=3e-6))
    0.001
    """
    return np.maximum(traffic_bytes / hbm_bytes_per_s, kernels * floor_s)
