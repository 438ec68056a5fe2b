"""The parts of a step's time; a key that a train step and a rollout share is one record."""

from __future__ import annotations

from collections.abc import Iterable

from cost_models.parts.part import Part
from lcplan.strategy.scopes import ATTENTION, LOSS, OPTIMIZER, RECOMPUTED

WEIGHTS = ("weights", "key-value-weights", "latent-weights", "expert-matrices", "router")
"""Purposes of the collectives of a layer's weights; attention's come first."""

EXPERT_ROWS = ("expert-rows", "expert-row-weights", "expert-counts", "expert-choices")
"""Purposes of the collectives of dispatch and combine."""

PIPELINE = ("pipeline", "pipeline-rows", "pipeline-tables")
"""Purposes of the collectives between the stages of a pipeline."""

IN_TICKS = (
    "gemm",
    "attention",
    "hbm",
    "recompute",
    "comm_tensor",
    "comm_fsdp",
    "comm_context",
    "comm_expert",
    "contention",
    "overhead",
)
"""Parts that every tick of a pipeline has. The few collectives of loss and tables among them are not repeated in idle ticks."""

_FSDP = Part(
    "comm_fsdp",
    "communication",
    "communication over fsdp",
    "Gathers of weights and scatters of their gradients that no product hides.",
    axis="fsdp",
    purposes=(*WEIGHTS, "tables"),
)
_TENSOR = Part(
    "comm_tensor",
    "communication",
    "communication over tensor",
    "Gathers and scatters of the residual stream, and the loss's collectives, that no product hides.",
    axis="tensor",
    purposes=("stream", "stream-ring", "loss", "loss-maximum", "loss-sums"),
)
_OVERHEAD = Part(
    "overhead",
    "host",
    "launches and host",
    "Least times of dependent kernels, waits for the host's launches, and exposed transfers to its memory.",
)

STEP_TIME: tuple[Part, ...] = (
    Part("gemm", "compute", "matrix products", "Products of the layers, forward and backward.", rates=("gemm",)),
    Part(
        "attention",
        "compute",
        "attention",
        "Attention kernels of the slowest rank, forward and backward.",
        rates=("attention_forward", "attention_backward"),
        scope=ATTENTION,
    ),
    Part("hbm", "compute", "memory-bound work", "Norms, rotations, residual sums, gates and merges.", rates=("hbm",)),
    Part(
        "recompute",
        "compute",
        "recomputation",
        "Forward work that the remat policy repeats in the backward pass.",
        rates=("gemm", "attention_forward", "hbm"),
        scope=RECOMPUTED,
    ),
    Part("loss", "compute", "loss", "The head's products and the softmax over the vocabulary.", rates=("gemm",), scope=LOSS),
    Part(
        "optimizer",
        "compute",
        "optimizer",
        "AdamW's update and sums of gradients over microbatches.",
        rates=("hbm",),
        scope=OPTIMIZER,
    ),
    _FSDP,
    _TENSOR,
    Part(
        "comm_context",
        "communication",
        "communication over context",
        "Ring hops that attention does not hide; halos, gathers and all-to-alls of the other schemes.",
        axis="context",
        purposes=(
            "kv-ring",
            "kv-gather",
            "kv-halo",
            "kv-gradients",
            "ulysses-query",
            "ulysses-key-value",
            "documents",
        ),
    ),
    Part(
        "comm_expert",
        "communication",
        "communication over expert",
        "Dispatch of rows to their experts, and combine.",
        axis="expert",
        purposes=EXPERT_ROWS,
    ),
    Part(
        "comm_data",
        "communication",
        "communication over data",
        "Reductions of gradients, vectors and scalars once a step.",
        axis="data",
        purposes=("gradients", "updates", "vectors", "scalars"),
    ),
    Part(
        "comm_pipe",
        "communication",
        "communication over pipe",
        "Messages between the stages of a pipeline, and the rows and tables that they share.",
        axis="pipe",
        purposes=PIPELINE,
    ),
    Part(
        "bubble",
        "compute",
        "pipeline bubble",
        "Ticks in which a stage of a pipeline has no microbatch.",
        rates=("gemm", "attention_forward", "attention_backward", "hbm"),
    ),
    Part("contention", "communication", "contention", "Compute time that concurrent collectives take from kernels."),
    _OVERHEAD,
)
"""Parts of a train step's time, in the order of ``time_s``; the step is their sum."""

ROLLOUT_TIME: tuple[Part, ...] = (
    Part(
        "prefill",
        "compute",
        "prefill",
        "The prompts' forward pass, its collectives included.",
        rates=("gemm", "attention_forward", "hbm"),
    ),
    Part("weights", "compute", "weights", "Reads of all weights and their products, step by step.", rates=("gemm", "hbm")),
    Part("kv_cache", "compute", "KV cache", "Reads of the cache, and its copy where it is not donated.", rates=("hbm",)),
    Part("sampling", "compute", "sampling", "Passes over the logits of the next tokens.", rates=("hbm",)),
    _FSDP,
    _TENSOR,
    _OVERHEAD,
)
"""Parts of a rollout's time, in the order of ``time_s``."""

SCORING = Part(
    "scoring",
    "compute",
    "scoring",
    "Forward passes over the sampled sequences for old and reference log-probabilities, collectives included.",
    rates=("gemm", "attention_forward", "hbm"),
)
RESHARD = Part(
    "reshard",
    "communication",
    "resharding",
    "The move of the trained weights to the rollout's layout: an all-to-all where tensor differs, and an all-gather.",
)

ITERATION_TIME: tuple[Part, ...] = (
    *(part.of("train") for part in STEP_TIME),
    *(part.of("rollout") for part in ROLLOUT_TIME),
    SCORING,
    RESHARD,
)
"""Parts of an RL iteration's time: the train step's and the rollout's with a prefix each, scoring, and resharding."""


def communication_seconds(time_s: dict[str, float]) -> dict[str, float]:
    """Return the communication parts of one estimate.

    Parameters
    ----------
    time_s : dict
        Seconds by part of a train step, a rollout or an iteration [s].

    Returns
    -------
    dict
        The parts of kind ``communication`` [s].

    Notes
    -----
    Source: ``STEP_TIME``, ``ROLLOUT_TIME`` and ``ITERATION_TIME``.
    """
    return {key: float(seconds) for key, seconds in time_s.items() if key in _COMMUNICATION}


def part_with_purpose(purpose: str) -> Part:
    """Return the time part of a train step that includes a collective.

    Parameters
    ----------
    purpose : str
        Purpose of a collective.

    Returns
    -------
    Part
        A communication part [no unit].

    Notes
    -----
    Source: ``STEP_TIME``.
    """
    return _BY_PURPOSE[purpose]


def _communicating(parts: Iterable[Part]) -> frozenset[str]:
    return frozenset(part.key for part in parts if part.kind == "communication")


_COMMUNICATION = _communicating((*STEP_TIME, *ROLLOUT_TIME, *ITERATION_TIME))
_BY_PURPOSE = {purpose: part for part in STEP_TIME for purpose in part.purposes}
