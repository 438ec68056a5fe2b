"""Overlap of collectives with products: of the gradients' reduction, and of tensor's gathers and scatters of the stream."""

from __future__ import annotations

import numpy as np

from cost_models.inputs.layout import Bools, Floats, Layout


def behind_backward_seconds(reduction_s: Floats, backward_s: Floats, *, buckets: Floats | float) -> Floats:
    """Return the exposed time of a reduction in buckets.

    ``max(t - b (1 - 1/L), t / L)``: every bucket except the last can overlap the rest of the pass.

    Parameters
    ----------
    reduction_s : ndarray
        t, the whole reduction [s].
    backward_s : ndarray
        b, the backward pass of the last microbatch [s].
    buckets : ndarray or float
        L, at least 1 [count].

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
    >>> float(behind_backward_seconds(np.array(3.0), np.array(2.0), buckets=2.0))
    2.0
    """
    return np.maximum(reduction_s - backward_s * (1.0 - 1.0 / buckets), reduction_s / buckets)


def gradient_buckets(layout: Layout, layers: float) -> Floats | float:
    """Return the buckets in which gradients are reduced: one per layer, or of the program's size.

    Parameters
    ----------
    layout : Layout
        Candidates.
    layers : float
        Layers of the whole model [count].

    Returns
    -------
    ndarray or float
        At least 1 [count].

    Notes
    -----
    Source: ``Program.gradient_bucket``.
    """
    size = layout.setting.program.gradient_bucket
    if size is None:
        return layers
    return np.maximum(layout.setting.model.parameters / layout.state_shards / size, 1.0)


def stream_beside_products(layout: Layout) -> tuple[Bools, Bools]:
    """Return the rows whose gathers and scatters of the residual stream run during products, forward and backward.

    A PyTorch program has one overlap for both values of ``collective_matmul`` but ``off``: Transformer Engine's user buffers
    gather around a ring during the products of the rows that have arrived, and scatter in pieces behind the products that make
    them; in the backward pass whole gathers and scatters run during other products.

    Parameters
    ----------
    layout : Layout
        Candidates; ``Program.stream`` states the overlap of a program that has it without the knob.

    Returns
    -------
    tuple of ndarray of bool, shape [n] each
        Forward (with its repetition) and backward; False where tensor is 1 [no unit].

    Notes
    -----
    lcplan's own step writes collective matmuls out, so that its rings are terms of their own (docs/step.md). Source: github
    NVIDIA/TransformerEngine, pytorch/module/base.py, ``initialize_ub``: the default methods ring_exchange, pipeline and bulk.
    """
    split, program = layout.table.tensor > 1, layout.setting.program
    asked = (layout.table.collective_matmul > 0) & (program.runtime == "torch")
    both = split & (asked | (program.stream == "beside-products"))
    return both, both | (split & (program.stream == "backward-beside-products"))
