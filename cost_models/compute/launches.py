"""Operations that a PyTorch host launches for one layer, counted from the layer's program."""

from __future__ import annotations

import numpy as np

from cost_models.inputs.layout import Floats, Layout

NORM = {"fused": 1.0, "fp32-norms": 2.0, "eager": 6.0}
"""One norm; of a copy in fp32; written out: cast to fp32, square, mean, scale, cast, weight (``EAGER_OF_FUSED`` of the time
model)."""

ROTARY = {"fused": 2.0, "fp32-norms": 2.0, "eager": 10.0}
"""Rotation of queries and of keys; written out, each negates, concatenates, multiplies twice and adds."""

ATTENTION = {"fused": 4.0, "unfused": 8.0}
"""Copies of queries, keys and values into the kernel's layout, and the kernel; unfused: scores, softmax with the mask, dropout,
product, and the copy back."""

SUMS = 2.0
"""Sums with the residual stream, and as many masks where these are dropped out."""

COMPILED = 4.0
"""Fused operations between the products of a layer that torch.compile traces: two norms each with the sum before it, the
rotation, the activation."""

GATHER = 4.0
"""A layer's gathered weights: copy in, all-gather, copy out, event (PyTorch FSDP)."""

EXPERTS = 20.0
"""A routed feed-forward: router product, scores, choice, counts, sort (2), rows into order (2), all-to-all of counts and of
rows, three grouped products, activation, rows back (2), all-to-all, weights, sum, cast (Megatron's ``alltoall`` dispatcher)."""


def layer_launches(layout: Layout) -> Floats:
    """Return the operations that a host launches for one layer's forward pass.

    Products, norms, rotation, attention, activation and sums, plus the collectives of the axes that are split: four of tensor
    (two all-reduces without sequence parallelism), three per further step of a ring, four per layer of gathered weights.

    Parameters
    ----------
    layout : Layout
        Candidates; its program states which operations are fused.

    Returns
    -------
    ndarray, shape [n]
        Launches [count per layer and microbatch]; 0 where the device replays a graph, or XLA launches whole graphs.

    Notes
    -----
    CUDA graphs and XLA's command buffers replay many operations by one launch. Ignores waits for counts of rows, which the host
    reads before it launches an all-to-all of uneven parts. Source: the operations of Llama's and GPT's layers as
    transformers (models/llama/modeling_llama.py), Megatron-LM (core/transformer) and torchtitan write them.
    """
    program, model = layout.setting.program, layout.setting.model
    if program.dispatch == "graphs" or (program.dispatch == "compiled" and program.runtime == "xla"):
        return np.zeros(len(layout.table))
    products = 4.0 + (EXPERTS if model.routed else model.up_matrices + 1.0)
    attention = ATTENTION["unfused" if program.attention == "unfused" else "fused"]
    if program.dispatch == "compiled":
        between = COMPILED
    else:
        gate = 2.0 if program.elementwise == "eager" and model.mlp == "gated" else 1.0
        between = 2.0 * NORM[program.elementwise] + ROTARY[program.elementwise] + SUMS * (1.0 + program.dropout) + gate
    tensor = np.where(layout.tensor > 1, 4.0 if program.sequence_parallel else 2.0, 0.0)
    ring = 3.0 * (layout.chunks - 1.0)
    return products + attention + between + tensor + ring + GATHER * (layout.weight_shards > 1)
