"""What the host costs: launches that keep a device waiting, and cores that host devices share."""

from __future__ import annotations

import numpy as np

from cost_models.inputs.layout import Floats
from lcplan.spec.hardware import HardwareSpec

BACKWARD_LAUNCHES = 2.0
"""Launches of a layer's backward pass over those of its forward pass: a gradient for the input and one for the weight."""

EXCHANGES = 4.0
"""All-to-alls of one forward pass of attention whose ranks exchange heads: query, key, value, output."""

KERNEL_CALL_S = 0.12e-3
"""Least time between two calls of one fused kernel from PyTorch: cuDNN's forward kernels of 1k and 2k tokens take 119 us on an
H100, 134 and 129 us on a B200, whatever their work (github SandAI-org/MagiAttention assets/magi_attn/exp/kernel)."""


def eager_attention_seconds(chunks: Floats, exchange: Floats, *, call_s: float) -> Floats:
    """Host time of one forward pass of attention whose operations PyTorch launches one by one.

    ``h (s + 4 [e > 1])``: s ring steps, each a kernel, its messages and its merge, and four exchanges of heads with their
    transpositions; a lone kernel takes ``KERNEL_CALL_S``.

    Parameters
    ----------
    chunks : ndarray
        s, ring steps, the first on a rank's own chunk [count].
    exchange : ndarray
        e, ranks that exchange heads [count].
    call_s : float
        h, host time of a ring step or an exchange [s].

    Returns
    -------
    ndarray
        Host time [s per pass over a layer].

    Notes
    -----
    The pass takes this or the device's time, whichever is longer. Source: h is fitted (data/constants.yaml).

    Examples
    --------
    >>> float(eager_attention_seconds(np.array(2.0), np.array(4.0), call_s=1e-3))
    0.006
    """
    calls = chunks + EXCHANGES * (exchange > 1)
    return np.where(calls > 1, call_s * calls, KERNEL_CALL_S)


def host_wait_seconds(layer_s: Floats, repeats: Floats | float, *, forward_host_s: float) -> Floats:
    """Time of one layer's passes in which the device waits for launches.

    ``max(0, e (1 + r + 2) - t)``.

    Parameters
    ----------
    layer_s : ndarray
        t, what the device does for one layer of one microbatch, both passes [s].
    repeats : ndarray or float
        r, forward passes repeated in the backward pass [count].
    forward_host_s : float
        e, host time of a layer's forward pass [s].

    Returns
    -------
    ndarray
        Waiting [s per layer and microbatch].

    Notes
    -----
    The host runs ahead within a step, so that a wait of one layer is paid back by none. Source: docs/tables.md; e is fitted
    (data/constants.yaml).

    Examples
    --------
    >>> float(host_wait_seconds(np.array(1e-3), 1.0, forward_host_s=1e-3))
    0.003
    """
    return np.maximum(forward_host_s * (1.0 + repeats + BACKWARD_LAUNCHES) - layer_s, 0.0)


def shares_cores(hardware: HardwareSpec) -> bool:
    """Whether a machine's devices are one processor's, so that total work counts and nothing hides behind anything.

    Parameters
    ----------
    hardware : HardwareSpec
        Machine.

    Returns
    -------
    bool
        Shared [no unit].

    Notes
    -----
    Source: jax's forced host devices (``--xla_force_host_platform_device_count``) run on one thread pool: a copy takes a core
    from a product beside it, and a rank that waits leaves its core to one that works.
    """
    return hardware.kind == "cpu"
