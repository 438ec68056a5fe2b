"""XLA's own limit of memory on a GPU, above which it recomputes more than the remat policy asks for."""

from __future__ import annotations

import numpy as np

from cost_models.inputs.layout import Floats, Layout
from cost_models.memory.saved_tensors import host_bytes

DEVICE_SHARE, SLOP = 0.80, 0.95
"""Share of a GPU's memory that XLA plans with, and the share that it uses of the rest without arguments (the default of
``xla_gpu_memory_limit_slop_factor``). Source: XLA, xla/service/gpu/gpu_hlo_schedule.cc."""


def limit_bytes(layout: Layout, *, arguments: Floats) -> Floats:
    """Return the device memory that XLA plans a program with: it rematerialises where a program needs more.

    ``0.95 (0.80 HBM - arguments) + arguments - host``: XLA's estimate counts tensors in the host's memory like tensors on
    the device.

    Parameters
    ----------
    layout : Layout
        Candidates.
    arguments : ndarray, shape [n]
        Parameters, optimizer state and batch, which the outputs replace [bytes per device].

    Returns
    -------
    ndarray, shape [n]
        Arguments and temporaries, below zero where the tensors on the host exceed the limit [bytes per device];
        infinite on TPU and on CPU.

    Notes
    -----
    Source: ``DEVICE_SHARE``; of 35 steps compiled for H100, B200 and GB200 (jax 0.10.1) it separates all whose program has
    rematerialised instructions from all others.
    """
    hardware = layout.setting.hardware
    if hardware.kind != "gpu":
        return np.full(len(layout.table), np.inf)
    planned = SLOP * (DEVICE_SHARE * hardware.device.hbm_bytes.value - arguments)
    return np.asarray(planned + arguments - host_bytes(layout))
