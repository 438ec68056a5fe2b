"""Program: what a trainer's step does otherwise than the step of docs/step.md, as far as a law depends on it."""

from __future__ import annotations

from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from lcplan.formats.frozen import Frozen
from lcplan.strategy.remat import NAMED_TENSORS, tensor_name

Tensor = Annotated[str, AfterValidator(tensor_name)]
"""A named tensor of a layer, in any of its spellings."""


class Program(Frozen):
    """A step's layout beyond its strategy. The defaults are the step of docs/step.md."""

    runtime: Literal["xla", "torch"] = "xla"
    """Whose allocator: XLA's buffers, planned for the whole step, or PyTorch's, freed as the last reader goes."""
    saved: tuple[Tensor, ...] | None = None
    """Named tensors of a layer (lcplan.strategy.remat) kept for the backward pass, in place of the strategy's policy."""
    derivative: Literal["written", "autodiff"] = "written"
    """``autodiff``: JAX's own derivative of the whole step on one device, nothing of it written by hand."""
    offloaded: tuple[Tensor, ...] = ()
    """Of what is kept, what lies in the host's memory; ``layer_in`` is the residual stream entering a layer."""
    repeats: Literal["needed", "whole-layer"] = "needed"
    """``whole-layer``: where nothing is kept, a layer's whole forward pass is repeated, its last product too (PyTorch)."""
    attention: Literal["step", "flash", "flash2", "triton", "cudnn-2025", "unfused"] = "step"
    """``step``: the kernel of docs/step.md on that device. ``flash``: the best fused kernel of its kind. ``flash2``, ``triton``
    and ``cudnn-2025``: older ones. ``unfused``: scores, softmax and weights go through memory."""
    attention_dtype: Literal["activations", "fp32"] = "activations"
    """What attention keeps for its backward pass: queries, keys, values and, unfused, the weights."""
    norms: Literal["made-again", "kept"] = "made-again"
    """``kept``: where all of a layer is kept, the fp32 input of both norms is too. Of a PyTorch step: norms are written out, so
    that autograd keeps the fp32 copies that they work in, of queries and keys too where these have norms."""
    attention_tile: Annotated[int, Field(gt=0)] | None = None
    """Keys of a tile that is computed whole or skipped, in a kernel that masks tile by tile; None: masking costs nothing."""
    ring_chunks: Literal["zigzag", "contiguous"] = "zigzag"
    """Chunks of the ring behind an exchange of heads in groups; with ``contiguous`` the last group sets the pace."""
    ring_communicators: Annotated[int, Field(gt=0, le=16)] = 1
    """Communicators that a ring has; LoongTrain's double ring has 5: all ranks; within and between windows one each for keys
    and values, and for their gradients (github InternLM/InternEvo, model/ops/ring_flash_attn)."""
    gathered_calls: Literal["each-chunk", "once"] = "each-chunk"
    """``once``: scheme ``all-gather`` calls its kernel on all gathered keys and merges nothing (Llama 3, Megatron)."""
    expert_weights: Literal["before-down", "after-down"] = "before-down"
    """Where a row's routing weight enters. ``after-down``: it multiplies what an expert returns, so that its gradient needs the
    last product again where a layer is not kept."""
    expert_copies: Literal["sorted", "one-hot"] = "sorted"
    """How dispatch with a capacity brings rows to experts and back; ``one-hot``: products with masks (MaxText's dense path)."""
    recompute_scores: bool = False
    """Unfused attention whose scores and softmax are not kept but repeated in the backward pass (selective recomputation)."""
    dispatch: Literal["compiled", "eager"] = "compiled"
    """``eager``: a host process launches every operation of a layer on its own, and small layers wait for it."""
    sequence_parallel: bool = True
    """Whether the residual stream is split over tensor between products; else it is whole on every tensor rank."""
    weights_over: Literal["fsdp+context", "fsdp"] = "fsdp+context"
    """Over what weights are sharded and gathered."""
    weights_gathered: Literal["each-pass", "once"] = "each-pass"
    """``once``: gathered in the forward pass of a step and kept for the backward pass (ZeRO-2)."""
    optimizer_over: Literal["weights", "data"] = "weights"
    """``data``: optimizer state and fp32 weights are split over data and context too (ZeRO-1, distributed optimizer)."""
    gradients_over: Literal["weights", "optimizer"] = "weights"
    """``optimizer``: PyTorch's gradients are split as the optimizer's state is (ZeRO-2), once a microbatch has made them."""
    optimizer_group: Annotated[int, Field(gt=0)] | None = None
    """Devices over which the optimizer is split at most, where that is less than data."""
    compute_copy: bool = False
    """Whether weights in the compute dtype are held beside the fp32 ones all the time (Megatron), not cast in the step."""
    pure_bf16: bool = False
    """Whether gradients are reduced in bf16."""
    loss: Literal["chunked", "whole"] = "chunked"
    """``whole``: the logits of a microbatch exist at once."""
    fused_loss: bool = False
    """Whether cross entropy makes its gradient in the logits' place."""
    logit_bytes: Annotated[float, Field(ge=2, le=32)] | None = None
    """PyTorch's of one logit at the loss's peak; None: by ``fused_loss``. Megatron's 6: bf16 logits and an fp32 copy, in which
    softmax and then the gradient are made; last that and its bf16 copy (tensor_parallel/cross_entropy.py)."""
    kept_logit_bytes: Annotated[float, Field(ge=0, le=32)] = 0.0
    """PyTorch's of one logit, beside what the loss's backward pass needs: 2 where the bf16 logits stay meanwhile, as in
    torchtitan's loop; 4 where their fp32 copy does, which a model of Hugging Face's Transformers returns beside the loss."""
    dropout: bool = False
    """Whether a layer keeps a mask, a byte an element, for each of its two sums with the residual stream (PyTorch)."""
    bucket_bytes: Annotated[float, Field(ge=0, le=1e12)] = 0.0
    """PyTorch's of the buckets that gradients and weights travel in. DeepSpeed's 9e9: two kinds of bucket of 5e8 elements of 2
    bytes, 4.5 of each where communication overlaps (huggingface.co/docs/transformers, DeepSpeed, ``overlap_comm``)."""
    update_bytes: Annotated[float, Field(ge=0, le=32)] = 0.0
    """PyTorch's of one weight, in the optimizer's update, beside persistent state. InternEvo's 8: of gradients that are 4 here,
    it holds bf16 ones, flat copies of them in bf16 and in fp32 (hybrid_zero_optim.py), and ``foreach`` AdamW makes a temporary
    of the weights' size (docs.pytorch.org, torch.optim.AdamW)."""
    loss_products: Annotated[float, Field(ge=3, le=12)] = 3.0
    """Products of the head with all tokens a step, at the rate of bf16: 3, one more where chunks are rematerialised, and each
    backward product twice where it runs in fp32."""
    head_bytes: Annotated[float, Field(ge=0, le=64)] = 8.0
    """Traffic of one element of the head for each loss chunk, beside the products: its fp32 gradient read and written; casts of
    weights that are not hoisted out of the chunks, and sums that are kernels of their own, come on top."""
    data_gradients: Literal["exposed", "behind-backward"] = "exposed"
    """Whether gradients are reduced over data after the backward pass or behind it."""
    gradient_sums: Literal["apart", "in-products"] = "apart"
    """How a microbatch's gradients join those of the ones before: a pass of their own over both, or in the products that make
    them (Megatron's gradient accumulation fusion)."""
    stream: Literal["exposed", "backward-beside-products", "beside-products"] = "exposed"
    """Whether tensor's gathers and scatters of the residual stream run beside products: in the backward pass, beside the
    weights' gradients, or in both, beside the products that they feed."""
    elementwise: Literal["fused", "eager"] = "fused"
    """``eager``: every operation of a norm, a rotation or a gate reads and writes memory on its own."""

    cache_passes: Annotated[float, Field(ge=1, le=8)] = 3.0
    """Passes over a layer's filled cache in a decode step: lcplan's takes the layer out of the stacked cache (read, written)
    and attends to that; 1 for a program that attends to it where it lies."""


STEP = Program()

DEEPSPEED_BUCKET_BYTES = 5e8 * 2.0 * 2.0 * 4.5
"""``Program.bucket_bytes`` of DeepSpeed as it comes."""

_EXPERTS = {"expert_weights": "after-down", "expert_copies": "one-hot"}
_FLASH = Program(attention="flash", data_gradients="behind-backward", loss="whole", gathered_calls="once")
_TORCH = _FLASH.model_copy(update={"runtime": "torch", "repeats": "whole-layer", "dispatch": "eager", "attention": "flash2"})
_MEGATRON = _TORCH.model_copy(
    update={"weights_over": "fsdp", "optimizer_over": "data", "compute_copy": True, "logit_bytes": 6.0}
)
_MEGATRON_2022 = _MEGATRON.model_copy(
    update={"attention": "unfused", "optimizer_over": "weights", "data_gradients": "exposed", "sequence_parallel": False}
)

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
        "llm-foundry": _TORCH.model_copy(update={"attention": "triton"}),
        "internevo": _MEGATRON.model_copy(update={"update_bytes": 8.0}),
        "megatron": _MEGATRON.model_copy(update={"attention": "flash"}),
        "deepspeed": _TORCH.model_copy(update={"bucket_bytes": DEEPSPEED_BUCKET_BYTES}),
        "loongtrain": _TORCH.model_copy(update={"ring_communicators": 5}),
        "nemo": _MEGATRON.model_copy(
            update={"attention": "flash", "gradient_sums": "in-products", "stream": "beside-products"}
        ),
        "megatron-2022": _MEGATRON_2022.model_copy(update={"stream": "backward-beside-products"}),
        "megatron-deepspeed": _MEGATRON_2022,
        "plain-jax": Program(attention="flash", derivative="autodiff", loss_products=6.0, head_bytes=28.0),
        "striped": Program(attention="flash", attention_tile=4096),
    }
)
"""Trainers by the name that a table's row may give; docs/tables.md says what each stands for."""

assert all(set(program.saved or ()) <= set(NAMED_TENSORS) for program in PROGRAMS.values())
