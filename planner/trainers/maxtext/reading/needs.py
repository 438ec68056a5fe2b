"""Memory of keys that add products to a step: multi-token prediction, and a head in fp32."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.trainers import Difference, Job
from planner.trainers.maxtext.read_remat import priced_bytes

STATE_BYTES = 16.0
"""Bytes of a parameter: fp32 weight, gradient and two moments."""
LOGIT_BYTES = {"tpu": 2.7, "gpu": 4.0}
"""Bytes of a logit of multi-token prediction at the peak: fp32 on GPU. On TPU each layer's loss is differentiated by itself:
train_compile for v5p-8 (0.2.5, Llama 3.1 8B cut to 4 layers, 16384 tokens per device) takes 7.97 GB more for one such layer,
of which 1.01 are state, 1.41 the layer's tensors, and the rest 2.64 bytes a logit."""

COTANGENT_BYTES = {"tpu": 1.0, "gpu": 2.0}
"""Further bytes of a logit where the head's product is in fp32: the cotangent's on GPU. On TPU the same train_compile takes
3.29 GB more, of which 1.32 are the product's operands, and the rest 0.94 bytes a logit."""


def predicted_tokens(values: Mapping[str, Any], job: Job) -> list[Difference]:
    """``mtp_num_layers``: each has a layer, a projection of two streams, and logits of the shared head for all tokens.

    The layer is not rematerialised (``models/models.py`` of 0.2.5 builds it from the bare layer), so it keeps as much as one
    layer of ``save-all``.
    """
    depth = int(values["mtp_num_layers"])
    if depth < 1:
        return []
    model, mesh = job.model, job.strategy.mesh
    parameters = depth * (model.layer_matrix_parameters + 2 * model.d_model**2) / job.strategy.state_shards
    whole, recomputed = (priced_bytes(job.with_strategy(remat=remat)) for remat in ("save-all", "full"))
    kept = depth * max(0, whole - recomputed) / model.layers
    logits = LOGIT_BYTES[job.hardware.kind] * depth * job.local_tokens * model.vocab / mesh.tensor
    return [
        Difference(
            name="multi-token-prediction",
            plan="one head on the last layer",
            trainer=f"{depth} further layer{'s' * (depth > 1)} with logits of {'their' if depth > 1 else 'its'} own",
            why="mtp_num_layers; the time of these layers and logits is not priced",
            extra_bytes=round(STATE_BYTES * parameters + kept + logits),
        )
    ]


def head_in_fp32(values: Mapping[str, Any], job: Job, *, tile: int) -> list[Difference]:
    """``logits_dot_in_fp32``: hidden states, head and the logits' cotangent of a tile are fp32 in place of bf16.

    Read in ``layers/nnx_decoders.py`` of 0.2.5: the head's product has dtype fp32, and so do its operands and their gradients.
    """
    if not values.get("logits_dot_in_fp32"):
        return []
    model, tensor = job.model, job.strategy.mesh.tensor
    states, head = 4.0 * tile * model.d_model, 2.0 * model.vocab * model.d_model
    cotangent = COTANGENT_BYTES[job.hardware.kind] * tile * model.vocab
    return [
        Difference(
            name="head-in-fp32",
            plan="operands of the head in bf16, its result in fp32",
            trainer="operands and result in fp32",
            why="logits_dot_in_fp32; the product's lower rate is not in the time",
            extra_bytes=round(states + (head + cotangent) / tensor),
        )
    ]
