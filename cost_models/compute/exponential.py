"""Cost of attention's exponentials relative to its products, by device."""

from __future__ import annotations

import math

from cost_models.compute.kernels import EXPONENTIAL_SHARE
from lcplan.spec.hardware import HardwareSpec

EXPONENTIALS_PER_CLOCK = 16.0
"""Exponentials per clock of one multiprocessor, on every GPU from compute capability 7.0 on (CUDA C++ programming guide,
throughput of native arithmetic instructions)."""


def exponential_share(hardware: HardwareSpec) -> float:
    """Return the cycles of a score's exponential over those of its products with heads of 128.

    ``(1 / X) / (4 128 / F)``: one multiprocessor computes X exponentials and F FLOP per clock, with F the power of two nearest
    to the peak. The share is at most an H100's, since kernels for later GPUs compute some exponentials on multiply-add units.

    Parameters
    ----------
    hardware : HardwareSpec
        Machine; its device gives the number and the clock of its multiprocessors.

    Returns
    -------
    float
        Share [no unit]; an H100's where these are unknown.

    Notes
    -----
    Source: ``EXPONENTIALS_PER_CLOCK``; Shah et al., FlashAttention-3 (arXiv:2407.08608), section 2.3, gives 1/2 for an H100.
    It is capped because in cudnn-frontend's GB200 results d = 256 runs 6 % faster than d = 128, not a third.
    """
    gpu = hardware.device.gpu
    if gpu is None:
        return EXPONENTIAL_SHARE
    flop_per_clock = hardware.device.peak_flop_per_s.value / (gpu.core_count * gpu.clock_rate_ghz * 1e9)
    return min(2.0 ** round(math.log2(flop_per_clock)) / (4.0 * 128.0 * EXPONENTIALS_PER_CLOCK), EXPONENTIAL_SHARE)
