"""Overlap of the gradients' reduction with the backward pass that computes them."""

from __future__ import annotations

import numpy as np

from cost_models.inputs.layout import Floats


def behind_backward_seconds(reduction_s: Floats, backward_s: Floats, *, layers: float) -> Floats:
    """Return the exposed time of a reduction with one bucket per layer.

    ``max(t - b (1 - 1/L), t / L)``: every bucket except the last layer's can overlap the remaining layers.

    Parameters
    ----------
    reduction_s : ndarray
        t, the whole reduction [s].
    backward_s : ndarray
        b, the backward pass of the last microbatch [s].
    layers : float
        L, at least 1.

    Returns
    -------
    ndarray
        Exposed time [s per step].

    Notes
    -----
    Ignores the collective's contention with concurrent kernels. Source: Li et al., PyTorch Distributed (VLDB 2020), section
    3.2.3, overlapping buckets with the backward pass.

    Examples
    --------
    >>> float(behind_backward_seconds(np.array(3.0), np.array(2.0), layers=2.0))
    2.0
    """
    return np.maximum(reduction_s - backward_s * (1.0 - 1.0 / layers), reduction_s / layers)
