"""Whose step a PyTorch trainer runs, for the laws: what autograd keeps, how the state is split, what the loss holds."""

from __future__ import annotations

from cost_models.inputs.program import PROGRAMS, STEP, Program
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.model import ModelSpec

TRANSFORMERS = PROGRAMS["transformers"].model_copy(update={"kept_logit_bytes": 2.0, "sequence_parallel": False})
"""A model of Hugging Face's Transformers: it returns the bf16 logits beside the loss, which casts them itself (github
huggingface/transformers, loss/loss_utils.py; until 4.47 the fp32 copy was returned), and its norms are written out in fp32
(models/llama/modeling_llama.py); activations are whole between layers."""

MEGATRON_FSDP = PROGRAMS["megatron"].model_copy(update={"weights_over": "fsdp+context", "optimizer_over": "weights"})
"""Megatron-FSDP with everything split."""

TORCHTITAN = PROGRAMS["torch-eager"].model_copy(update={"loss": "chunked"})
"""torchtitan as lcplan exports it, its loss in chunks."""


def priced_as(program: Program, *, hardware: HardwareSpec, model: ModelSpec) -> Program:
    """The step that the laws price for a trainer: its own where they have all of it, else that of docs/step.md.

    PyTorch's memory has a law for dense models on GPUs; of a mixture of experts and of latent attention the step of
    docs/step.md is priced, and what the trainer holds beyond it is counted by hand.
    """
    covered = hardware.kind == "gpu" and model.experts is None and model.latent is None
    return program if covered else STEP
