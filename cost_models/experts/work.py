"""A device's own work on its experts: products of rows with matrices, and the copies that sort rows."""

from __future__ import annotations

import numpy as np

from cost_models.compute.kernels import gemm_seconds
from cost_models.experts.buffers import BLOCK_ROWS, ExpertLayout
from cost_models.inputs.layout import Floats, Layout
from cost_models.rates.published import Rates

COPIES = {"forward": (4.0, 1.0), "backward": (4.0, 4.0)}
"""Passes over rows of D, of those that a rank's tokens send and of its whole buffer. Forward: rows are copied out by expert
(read, write), the buffer is filled with zeros, results come back into zeros and are summed. Backward: the same for the
cotangents, and the gradients by gate and up are added in the buffer (read, read, write). Counted from strategies/moe."""


def expert_product_seconds(layout: Layout, rates: Rates, *, products: Floats | float, sums: float = 0.0) -> Floats:
    """Time of products of one layer's and microbatch's rows with their experts' matrices, on the busiest rank.

    ``2 p m D F / t`` FLOP for the m rows that are multiplied; each product reads the matrices of all experts of the rank, and
    each sum of outer products reads and writes one fp32 matrix a block.

    Parameters
    ----------
    layout : Layout
        Candidates.
    rates : Rates
        What the device achieves; a block's product is taken to run as a whole one of its size does.
    products : ndarray or float
        p, products of one matrix a layer [count].
    sums : float
        Of them those that are a weight's gradient [count].

    Returns
    -------
    ndarray, shape [n]
        Time [s per layer and microbatch].

    Notes
    -----
    Source: docs/step.md; strategies/moe/products.py for the block loop.
    """
    part, width = ExpertLayout(layout), layout.setting.model.d_model * layout.ff_width
    traffic = layout.activation_bytes * products * part.own * width
    blocks = np.where(part.dispatches("capacity") | (not part.blocks), part.own, part.multiplied / BLOCK_ROWS)
    traffic = traffic + sums * 2.0 * layout.reduce_bytes * blocks * width
    flop = 2.0 * products * part.multiplied * width
    return gemm_seconds(flop, traffic, flop_per_s=rates.gemm.value, hbm_bytes_per_s=rates.hbm.value)


def one_hot_seconds(layout: Layout, rates: Rates, *, products: float) -> Floats:
    """Time of products with one-hot masks that bring rows to experts of a capacity, or their results back.

    ``2 p t R D`` FLOP: every of the t tokens of a sequence with every of its rows of R, all but k of them zero.

    Parameters
    ----------
    layout : Layout
        Candidates.
    rates : Rates
        What the device achieves.
    products : float
        p, products a layer: 2 forward; 3 backward, as rows, results and the results' weights have gradients [count].

    Returns
    -------
    ndarray, shape [n]
        Time [s per layer and microbatch]; 0 where rows are sorted instead.

    Notes
    -----
    Source: github AI-Hypercomputer/maxtext, layers/moe.py, ``dense_matmul``: "BSM,BSEC -> EBCM" and back.
    """
    if layout.setting.program.expert_copies != "one-hot":
        return np.zeros(len(layout.table))
    part = ExpertLayout(layout)
    flop = 2.0 * products * layout.local_length * part.capacity * layout.setting.model.d_model
    return np.where(part.dispatches("capacity"), flop / rates.gemm.value, 0.0)


ROW_MOVES = 2.0
"""Of a row that is sent to an expert, in one pass over a layer: to its expert and back, or the same for its cotangents."""

BIAS_MOVES = 3.0
"""Where experts have biases: each product's bias is spread over rows, and backward summed by expert."""


def row_move_seconds(layout: Layout) -> Floats:
    """Time that a TPU takes to move rows one by one, beside the traffic of their bytes, in one pass over a layer.

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
    A gather of rows by index is a transfer each. Source: github AI-Hypercomputer/maxtext, layers/moe.py, ``permute``
    and ``unpermute``; r is fitted (data/constants.yaml).
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
    """Traffic of sorting rows and of bringing results back, of one layer and microbatch.

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
