"""Steps of PyTorch trainers for the cost model: tensors that autograd keeps, the split of the state, the loss's memory."""

from __future__ import annotations

from cost_models.inputs.program import PROGRAMS, STEP, Program
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.model import ModelSpec

TRANSFORMERS = PROGRAMS["transformers"].model_copy(update={"kept_logit_bytes": 2.0, "sequence_parallel": False})
"""A model of Hugging Face's Transformers: it returns the bf16 logits with the loss, which casts them itself (github
huggingface/transformers, loss/loss_utils.py; until 4.47 the fp32 copy was returned), and its norms are written out in fp32
(models/llama/modeling_llama.py); activations are whole between layers."""

MEGATRON_FSDP = PROGRAMS["megatron"].model_copy(update={"weights_over": "fsdp+context", "optimizer_over": "weights"})
"""Megatron-FSDP with everything split."""

TORCHTITAN = PROGRAMS["torch-eager"].model_copy(update={"loss": "chunked", "dispatch": "graphs"})
"""torchtitan as lcplan exports it: its loss in chunks, its step replayed as CUDA graphs (``disable_cuda_graphs`` of
torchtitan/config/configs.py)."""


def priced_as(program: Program, *, hardware: HardwareSpec, model: ModelSpec) -> Program:
    """Return the priced step of a trainer: its own where the cost model covers it, else that of docs/step.md.

    A program in JAX differs by its attention kernel, which counts on TPU; on GPUs jax's own kernels run in both.
    PyTorch's memory is modelled for dense models on GPUs. For a mixture of experts and for latent attention the step of
    docs/step.md is priced, and the trainer's further memory is counted by hand.
    """
    if program.runtime == "xla":
        return program if hardware.kind == "tpu" else STEP
    covered = hardware.kind == "gpu" and model.experts is None and model.latent is None
    return program if covered else STEP
