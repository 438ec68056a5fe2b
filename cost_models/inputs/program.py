"""Program: how a trainer's step differs from the step of docs/step.md, as far as a cost model depends on it."""

from __future__ import annotations

from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from lcplan.formats.frozen import Frozen
from lcplan.strategy.remat import NAMED_TENSORS, tensor_name

Tensor = Annotated[str, AfterValidator(tensor_name)]
"""A named tensor of a layer, in any of its spellings."""


class Program(Frozen):
    """Properties of a step that its strategy does not fix. The defaults describe the step of docs/step.md."""

    runtime: Literal["xla", "torch"] = "xla"
    """The allocator: XLA plans its buffers for the whole step; PyTorch frees a tensor after its last reader."""
    saved: tuple[Tensor, ...] | None = None
    """Named tensors of a layer (lcplan.strategy.remat) kept for the backward pass, in place of the strategy's policy."""
    derivative: Literal["written", "autodiff"] = "written"
    """``autodiff``: JAX differentiates the whole step on one device; no part of the derivative is written by hand."""
    offloaded: tuple[Tensor, ...] = ()
    """Kept tensors that are stored in the host's memory; ``layer_in`` is the residual stream entering a layer."""
    repeats: Literal["needed", "whole-layer"] = "needed"
    """``whole-layer``: without kept tensors, a layer's whole forward pass is repeated, including its last product (PyTorch)."""
    attention: Literal["step", "flash", "flash2", "triton", "cudnn-2025", "tokamax", "unfused"] = "step"
    """``step``: the kernel of docs/step.md on that device. ``flash``: the best fused kernel of its kind. ``flash2``, ``triton``
    and ``cudnn-2025``: older fused kernels. ``tokamax``: Tokamax's splash attention for TPU, whose backward pass is one kernel
    in place of two. ``unfused``: scores, softmax and weights go through memory."""
    attention_dtype: Literal["activations", "fp32"] = "activations"
    """Type of the tensors that attention keeps for its backward pass: queries, keys, values and, if unfused, the weights."""
    norms: Literal["made-again", "kept"] = "made-again"
    """``kept``: where all of a layer is kept, so is the fp32 input of both norms. In a PyTorch step the norms are written out:
    autograd keeps the fp32 copies in which they compute, also for norms of queries and keys."""
    attention_tile: Annotated[int, Field(gt=0)] | None = None
    """Keys per tile of a kernel that computes or skips whole tiles; None: masking costs nothing."""
    ring_chunks: Literal["zigzag", "contiguous"] = "zigzag"
    """Chunks of the ring between groups that exchange heads; with ``contiguous`` the last group is the slowest."""
    ring_order: Literal["plain", "double"] = "plain"
    """``double``: rings inside domains, between which chunks travel once a round, from every rank to the same rank of the next
    domain and during all steps of the round (LoongTrain, arXiv:2406.18485, section 5.2; BurstEngine, arXiv:2509.19836)."""
    ring_backward: Literal["keys", "queries"] = "keys"
    """``queries``: the backward pass sends queries, cotangents and the queries' gradients in place of keys, values and their
    gradients (BurstEngine)."""
    ring_gradients: Literal["fp32", "activations"] = "fp32"
    """The dtype in which partial sums of gradients travel. Transformer Engine's travel as keys do (github
    NVIDIA/TransformerEngine, context_parallel.py, ``p2p_comm_buffers``)."""
    last_gradients: Literal["hidden", "exposed"] = "hidden"
    """Whether the last hop of a ring's gradients overlaps other work; a PyTorch function returns after it."""
    ring_communicators: Annotated[int, Field(gt=0, le=16)] = 1
    """Communicators of a ring. LoongTrain's double ring has 5: one of all ranks; within and between windows one for keys and
    values and one for their gradients (github InternLM/InternEvo, model/ops/ring_flash_attn)."""
    gathered_calls: Literal["each-chunk", "once"] = "each-chunk"
    """``once``: scheme ``all-gather`` calls its kernel on all gathered keys and merges nothing (Llama 3, Megatron)."""
    expert_weights: Literal["before-down", "after-down"] = "before-down"
    """The place where a row's routing weight enters. ``after-down``: it multiplies an expert's output, so its gradient repeats
    the last product where a layer is not kept."""
    expert_copies: Literal["sorted", "one-hot"] = "sorted"
    """The way in which ``capacity`` dispatches and combines rows; ``one-hot``: products with masks (MaxText's dense path)."""
    recompute_scores: bool = False
    """Whether unfused attention repeats scores and softmax in the backward pass (selective recomputation)."""
    dispatch: Literal["compiled", "eager", "graphs"] = "compiled"
    """``eager``: a host process launches every operation of a layer separately, and small layers wait for it. ``compiled``:
    XLA launches whole graphs, torch.compile each fused operation. ``graphs``: CUDA graphs of PyTorch's operations."""
    sequence_parallel: bool = True
    """Whether the residual stream is split over tensor between products; else it is whole on every tensor rank."""
    weights_over: Literal["fsdp+context", "fsdp"] = "fsdp+context"
    """Axes over which weights are sharded and gathered."""
    weights_gathered: Literal["each-pass", "once"] = "each-pass"
    """``once``: weights are gathered in a step's forward pass and kept for the backward pass (ZeRO-2)."""
    optimizer_over: Literal["weights", "data"] = "weights"
    """``data``: optimizer state and fp32 weights are split over data and context too (ZeRO-1, distributed optimizer)."""
    gradients_over: Literal["weights", "optimizer"] = "weights"
    """``optimizer``: after each microbatch PyTorch splits its gradients as the optimizer's state (ZeRO-2)."""
    optimizer_group: Annotated[int, Field(gt=0)] | None = None
    """Most devices over which the optimizer is split, where these are fewer than data."""
    compute_copy: bool = False
    """Whether a copy of the weights in the compute dtype exists all the time (Megatron) in place of a cast in the step."""
    pure_bf16: bool = False
    """Whether gradients are kept and reduced in bf16."""
    gradients_sent: Literal["fp32", "bf16"] = "fp32"
    """Type in which gradients are reduced over data."""
    gradients_whole: bool = False
    """Whether gradients are all-reduced although the optimizer is distributed (InternEvo: hybrid_zero_optim.py calls
    ``reduce_tensor`` without a destination)."""
    gradient_bucket: Annotated[float, Field(gt=0)] | None = None
    """Elements of a bucket in which gradients are reduced behind the backward pass; None: one bucket per layer."""
    updated_weights: Literal["gathered", "broadcast"] = "gathered"
    """``broadcast``: with a distributed optimizer, after the update each rank in turn sends its weights to the others of the
    optimizer's group, exposed (InternEvo without ``overlap_sync_param``: hybrid_zero_optim.py, ``broadcast_params``)."""
    loss: Literal["chunked", "whole"] = "chunked"
    """``whole``: all logits of a microbatch exist at the same time."""
    fused_loss: bool = False
    """Whether cross entropy writes its gradient into the logits' buffer."""
    logit_bytes: Annotated[float, Field(ge=2, le=32)] | None = None
    """Bytes per logit at the peak of a PyTorch loss; None: by ``fused_loss``. Megatron's 6: bf16 logits and an fp32 copy, which
    softmax and then the gradient overwrite; at the end that copy and its bf16 cast (tensor_parallel/cross_entropy.py). MPT's
    4: bf16 logits and their bf16 gradient, by flash-attn's cross entropy (llm-foundry, ``loss_fn: fused_crossentropy``)."""
    kept_logit_bytes: Annotated[float, Field(ge=0, le=32)] = 0.0
    """Bytes per logit in PyTorch, in addition to the loss's backward pass: 2 where the bf16 logits stay alive, as in
    torchtitan's loop; 4 where their fp32 copy does, which a model of Hugging Face's Transformers returns with the loss."""
    dropout: bool = False
    """Whether a layer keeps a mask, one byte per element, for each of its two sums with the residual stream (PyTorch)."""
    deterministic: bool = False
    """Whether attention adds the gradients of queries in a fixed order."""
    bucket_bytes: Annotated[float, Field(ge=0, le=1e12)] = 0.0
    """Bytes of the buckets in which PyTorch sends gradients and weights. DeepSpeed's 9e9: two kinds of bucket of 5e8 elements
    of 2 bytes, 4.5 of each where communication overlaps (huggingface.co/docs/transformers, DeepSpeed, ``overlap_comm``)."""
    update_bytes: Annotated[float, Field(ge=0, le=32)] = 0.0
    """Bytes per weight that PyTorch's optimizer update takes in addition to persistent state. InternEvo's 8: where 4 bytes of
    gradient are counted here, it holds bf16 gradients and flat copies of them in bf16 and in fp32 (hybrid_zero_optim.py);
    ``foreach`` AdamW makes a temporary of the weights' size (docs.pytorch.org, torch.optim.AdamW)."""
    loss_products: Annotated[float, Field(ge=3, le=12)] = 3.0
    """Products of the head with all tokens per step, in units of a bf16 product: 3, one more where chunks are rematerialised;
    a backward product in fp32 counts twice."""
    logit_traffic: Annotated[float, Field(ge=0, le=256)] = 24.0
    """Traffic of one logit per step, in addition to the products [bytes]: six accesses in fp32."""
    head_bytes: Annotated[float, Field(ge=0, le=64)] = 8.0
    """Traffic of one element of the head per loss chunk, in addition to the products: its fp32 gradient is read and written.
    Casts of weights inside the loop over chunks, and sums in separate kernels, add to it."""
    data_gradients: Literal["exposed", "behind-backward"] = "exposed"
    """Whether gradients are reduced over data after the backward pass (``exposed``) or during it."""
    gradient_sums: Literal["apart", "in-products"] = "apart"
    """The way in which gradients add up over microbatches: in a separate pass over both, or in the products that make them
    (Megatron's gradient accumulation fusion)."""
    stream: Literal["exposed", "backward-beside-products", "beside-products"] = "exposed"
    """Whether tensor's gathers and scatters of the residual stream overlap products: only those of the weights' gradients in
    the backward pass, or in both passes the products that they feed."""
    elementwise: Literal["fused", "fp32-norms", "eager"] = "fused"
    """``eager``: every operation of a norm, a rotation or a gate reads and writes memory separately. ``fp32-norms``: rotations
    and gates are fused kernels, and so are norms, but of a copy in fp32; the backward pass repeats norms, and the sums before
    them (``STREAM_PASSES`` of the time model)."""


STEP = Program()

DEEPSPEED_BUCKET_BYTES = 5e8 * 2.0 * 2.0 * 4.5
"""``Program.bucket_bytes`` of DeepSpeed with its default settings."""

_EXPERTS = {"expert_weights": "after-down", "expert_copies": "one-hot"}
_FLASH = Program(attention="flash", data_gradients="behind-backward", loss="whole", gathered_calls="once")
_TORCH = _FLASH.model_copy(
    update={
        "runtime": "torch",
        "repeats": "whole-layer",
        "dispatch": "eager",
        "attention": "flash2",
        "last_gradients": "exposed",
    }
)
_MEGATRON = _TORCH.model_copy(
    update={
        "weights_over": "fsdp",
        "optimizer_over": "data",
        "compute_copy": True,
        "logit_bytes": 6.0,
        "ring_gradients": "activations",
    }
)
_MEGATRON_2022 = _MEGATRON.model_copy(
    update={"attention": "unfused", "optimizer_over": "weights", "data_gradients": "exposed", "sequence_parallel": False}
)

_INTERNEVO = {
    "update_bytes": 8.0,
    "gradients_sent": "bf16",
    "gradients_whole": True,
    "gradient_bucket": 512.0 * 2**20,
    "updated_weights": "broadcast",
    "elementwise": "fp32-norms",
    "logit_bytes": 8.0,
    "logit_traffic": 60.0,
}
"""InternEvo: apex's fused norm of ``x.float()``, which ``dropout_selective_checkpoint`` repeats in the backward pass, rotations
in place, and a scripted gate (model/modeling_internlm.py, modules/embedding.py). Gradients are bf16, in buckets of 512 Mi
elements (configs/7B_sft.py, ``reduce_bucket_size``). Each microbatch also has accuracy, perplexity and loss computed from the
fp32 logits (model/metrics.py, ``AccPerplex``): one cross entropy, two maxima, argmax, difference, exponential and sum take 36
bytes a logit, and the difference is a second fp32 copy."""

PROGRAMS: MappingProxyType[str, Program] = MappingProxyType(
    {
        "lcplan": STEP,
        "flash": Program(attention="flash", data_gradients="behind-backward", gathered_calls="once"),
        "maxtext": _FLASH.model_copy(update={"data_gradients": "exposed", **_EXPERTS}),
        "paxml": _FLASH.model_copy(update={"data_gradients": "exposed"}),
        "torch-fsdp": _TORCH,
        "torch-eager": _TORCH.model_copy(update={"elementwise": "eager", "kept_logit_bytes": 2.0}),
        "transformers": _TORCH.model_copy(update={"elementwise": "eager", "kept_logit_bytes": 4.0, "norms": "kept"}),
        "torch-compile": _TORCH.model_copy(update={"dispatch": "compiled"}),
        "llm-foundry": _TORCH.model_copy(update={"attention": "triton", "logit_bytes": 4.0}),
        "internevo": _MEGATRON.model_copy(update=_INTERNEVO),
        "megatron": _MEGATRON.model_copy(update={"attention": "flash"}),
        "deepspeed": _TORCH.model_copy(update={"bucket_bytes": DEEPSPEED_BUCKET_BYTES}),
        "loongtrain": _TORCH.model_copy(update={"ring_order": "double", "ring_communicators": 5}),
        "burst": _TORCH.model_copy(update={"ring_order": "double", "ring_backward": "queries", "loss": "chunked"}),
        "nemo": _MEGATRON.model_copy(
            update={"attention": "flash", "gradient_sums": "in-products", "stream": "beside-products", "pure_bf16": True}
        ),
        "megatron-2022": _MEGATRON_2022.model_copy(update={"stream": "backward-beside-products"}),
        "megatron-deepspeed": _MEGATRON_2022,
        "plain-jax": Program(attention="flash", derivative="autodiff", loss_products=6.0, head_bytes=28.0),
        "striped": Program(attention="flash", attention_tile=4096),
    }
)
"""Trainers' programs by the name that a table's row may give; docs/tables.md describes each."""

assert all(set(program.saved or ()) <= set(NAMED_TENSORS) for program in PROGRAMS.values())
