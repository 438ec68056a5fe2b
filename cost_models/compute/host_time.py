"""Cost of the host: launches for which a device waits, and cores that CPU devices share."""

from __future__ import annotations

import numpy as np

from cost_models.inputs.layout import Floats
from lcplan.spec.hardware import HardwareSpec

BACKWARD_LAUNCHES = 2.0
"""Launches of a layer's backward pass over its forward pass: a gradient for the input and one for the weight."""

EXCHANGES = 4.0
"""All-to-alls of one forward pass of attention whose ranks exchange heads: query, key, value, output."""

KERNEL_CALL_S = 0.12e-3
"""Least time between two calls of one fused kernel from PyTorch: cuDNN's forward kernels of 1k and 2k tokens take 119 us on an
H100, 134 and 129 us on a B200, independent of their work (github SandAI-org/MagiAttention assets/magi_attn/exp/kernel)."""


def eager_attention_seconds(chunks: Floats, exchange: Floats, *, call_s: float) -> Floats:
    """Return the host time of one forward pass of attention whose operations PyTorch launches one by one.

    ``h (s + 4 [e > 1])``: s ring steps, each with a kernel, its messages and its merge, and four exchanges of heads with their
    transpositions. A single kernel takes ``KERNEL_CALL_S``.

    Parameters
    ----------
    chunks : ndarray
        s, ring steps including the step on a rank's own chunk [count].
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


def host_wait_seconds(layer_s: Floats, repeats: Floats | float, *, forward_host_s: Floats | float) -> Floats:
    """Return the time during one layer's passes in which the device waits for launches.

    ``max(0, e (1 + r + 2) - t)``: the larger of the device's work and the host's launches counts.

    Parameters
    ----------
    layer_s : ndarray
        t, the device's work on one layer of one microbatch, both passes [s].
    repeats : ndarray or float
        r, forward passes repeated in the backward pass [count].
    forward_host_s : ndarray or float
        e, host time of a layer's forward pass: launches (``cost_models.compute.launches``) times the time of one [s].

    Returns
    -------
    ndarray
        Waiting [s per layer and microbatch].

    Notes
    -----
    No other layer makes up for a layer's wait. Source: docs/tables.md; the time of one launch is fitted (data/constants.yaml).

    Examples
    --------
    >>> float(host_wait_seconds(np.array(1e-3), 1.0, forward_host_s=1e-3))
    0.003
    """
    return np.maximum(forward_host_s * (1.0 + repeats + BACKWARD_LAUNCHES) - layer_s, 0.0)


def shares_cores(hardware: HardwareSpec) -> bool:
    """Return whether a machine's devices share one processor's cores, so that total work counts and no transfer is hidden.

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
    from a concurrent product, and a waiting rank frees its core for a working one.
    """
    return hardware.kind == "cpu"
