"""Compute of a device on its experts: products of rows with matrices, and the copies that sort rows."""

from __future__ import annotations

import numpy as np

from cost_models.compute.kernels import gemm_seconds
from cost_models.experts.buffers import BLOCK_ROWS, ExpertLayout
from cost_models.inputs.layout import Floats, Layout
from cost_models.rates.published import Rates

COPIES = {"forward": (4.0, 1.0), "backward": (4.0, 4.0)}
"""Passes over rows of D: first over the rows that a rank sends, then over its whole buffer. Counted from strategies/moe.

Forward: rows are sorted by expert (read, write), the buffer is filled with zeros, results are scattered into zeros and summed.
Backward: the same for the cotangents, and the gradients through gate and up are added in the buffer (read, read, write).
"""


def expert_product_seconds(layout: Layout, rates: Rates, *, products: Floats | float, sums: float = 0.0) -> Floats:
    """Return the time of products of rows with their experts' matrices, for one layer and microbatch on the busiest rank.

    ``2 p m D F / t`` FLOP for the m rows that are multiplied. Each product reads the matrices of all experts of the rank. Each
    sum of outer products reads and writes one fp32 matrix per block.

    Parameters
    ----------
    layout : Layout
        Candidates.
    rates : Rates
        Rates that the device achieves; a block's product is assumed to run at the rate of a whole product of its size.
    products : ndarray or float
        p, products with one matrix per layer [count].
    sums : float
        Products among these that compute a weight's gradient [count].

    Returns
    -------
    ndarray, shape [n]
        Time [s per layer and microbatch].

    Notes
    -----
    Source: docs/step.md; strategies/moe/products.py for the block loop.
    """
    part = ExpertLayout(layout)
    width = layout.setting.model.d_model * part.width
    traffic = layout.activation_bytes * products * part.own * width
    blocks = np.where(part.dispatches("capacity") | (not part.blocks), part.own, part.multiplied / BLOCK_ROWS)
    traffic = traffic + sums * 2.0 * layout.reduce_bytes * blocks * width
    flop = 2.0 * products * part.multiplied * width
    return gemm_seconds(flop, traffic, flop_per_s=rates.gemm.value, hbm_bytes_per_s=rates.hbm.value)


def one_hot_seconds(layout: Layout, rates: Rates, *, products: float) -> Floats:
    """Return the time of products with one-hot masks that dispatch rows to experts with a capacity, or combine results.

    ``2 p t R D`` FLOP: each of the t tokens of a sequence is multiplied with each of its R rows; all except k masks are zero.

    Parameters
    ----------
    layout : Layout
        Candidates.
    rates : Rates
        Rates that the device achieves.
    products : float
        p, products per layer: 2 forward; 3 backward, since rows, results and routing weights have gradients [count].

    Returns
    -------
    ndarray, shape [n]
        Time [s per layer and microbatch]; 0 where rows are sorted instead.

    Notes
    -----
    Source: github AI-Hypercomputer/maxtext, layers/moe.py, ``dense_matmul``: "BSM,BSEC -> EBCM" and its inverse.
    """
    if layout.setting.program.expert_copies != "one-hot":
        return np.zeros(len(layout.table))
    part = ExpertLayout(layout)
    flop = 2.0 * products * layout.local_length * part.capacity * layout.setting.model.d_model
    return np.where(part.dispatches("capacity"), flop / rates.gemm.value, 0.0)


ROW_MOVES = 2.0
"""Moves of a routed row in one pass over a layer: dispatch and combine, or the same for its cotangents."""

BIAS_MOVES = 3.0
"""Further moves where experts have biases: each product's bias is gathered by row, and backward summed by expert."""


def row_move_seconds(layout: Layout) -> Floats:
    """Return the time that a TPU takes to move rows one by one in a pass over a layer, in addition to their traffic.

    ``(2 + 3 [bias]) U k r``.

    Parameters
    ----------
    layout : Layout
        Candidates; its constants hold r, ``tpu_row_s``.

    Returns
    -------
    ndarray, shape [n]
        Time [s per pass over a layer and microbatch]; 0 for a dense model, other hardware, or dispatch by masks.

    Notes
    -----
    A gather by index makes one transfer per row. Source: github AI-Hypercomputer/maxtext, layers/moe.py, ``permute`` and
    ``unpermute``; r is fitted (data/constants.yaml).
    """
    setting = layout.setting
    experts = setting.model.routed
    if experts is None or setting.hardware.kind != "tpu":
        return np.zeros(len(layout.table))
    part = ExpertLayout(layout)
    masked = part.dispatches("capacity") & (setting.program.expert_copies == "one-hot")
    moves = ROW_MOVES + (BIAS_MOVES if experts.bias else 0.0)
    return ~masked * moves * part.assigned * setting.constants.tpu_row_s


def expert_copy_bytes(layout: Layout, which: str) -> Floats:
    """Return the traffic of sorting rows and combining results, for one layer and microbatch.

    ``a D (p U k + q R)``.

    Parameters
    ----------
    layout : Layout
        Candidates.
    which : str
        ``forward`` or ``backward``.

    Returns
    -------
    ndarray, shape [n]
        Traffic [bytes per layer and microbatch]; 0 for dense layers.

    Notes
    -----
    Source: ``COPIES``.
    """
    if layout.setting.model.routed is None:
        return np.zeros(len(layout.table))
    part, (sent, buffer) = ExpertLayout(layout), COPIES[which]
    masked = part.dispatches("capacity") & (layout.setting.program.expert_copies == "one-hot")
    return ~masked * layout.activation_bytes * layout.setting.model.d_model * (sent * part.assigned + buffer * part.capacity)
