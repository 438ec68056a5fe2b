"""What the exponentials of attention cost beside its products, by device."""

from __future__ import annotations

import math

from cost_models.compute.kernels import EXPONENTIAL_SHARE
from lcplan.spec.hardware import HardwareSpec

EXPONENTIALS_PER_CLOCK = 16.0
"""Exponentials of one multiprocessor a clock, on every GPU from compute capability 7.0 on (CUDA C++ programming guide,
throughput of native arithmetic instructions)."""


def exponential_share(hardware: HardwareSpec) -> float:
    """Cycles of a score's exponential over those of its products with heads of 128.

    ``(1 / X) / (4 128 / F)``: X exponentials and F FLOP a clock of one multiprocessor, F the power of two next to the peak's;
    at most an H100's, since kernels for later GPUs leave part of the exponentials to the multiply-add units.

    Parameters
    ----------
    hardware : HardwareSpec
        Machine; its device says how many multiprocessors it has and at what clock.

    Returns
    -------
    float
        Share [no unit]; an H100's where that is not stated.

    Notes
    -----
    Source: ``EXPONENTIALS_PER_CLOCK``; Shah et al., FlashAttention-3 (arXiv:2407.08608), section 2.3, has 1/2 for an H100;
    capped since the d = 256 rows of cudnn-frontend's GB200 results run 6 % faster than those of 128, not a third.
    """
    gpu = hardware.device.gpu
    if gpu is None:
        return EXPONENTIAL_SHARE
    flop_per_clock = hardware.device.peak_flop_per_s.value / (gpu.core_count * gpu.clock_rate_ghz * 1e9)
    return min(2.0 ** round(math.log2(flop_per_clock)) / (4.0 * 128.0 * EXPONENTIALS_PER_CLOCK), EXPONENTIAL_SHARE)
