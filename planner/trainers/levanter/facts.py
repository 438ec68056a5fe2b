"""Levanter 0.2.227 (PyPI ``marin-levanter``): the strategies that its YAML can express.

Read in the package (``utils/mesh.py``, ``layers/attention.py``, haliax ``_src/scan.py``) and in executables on 8 host devices:
with a ``position`` axis on the mesh, attention other than splash gathers queries, keys and values of the whole sequence.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.formats.nearest import near_multiples
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.model import ModelSpec
from lcplan.strategy import SCHEMES, Strategy
from planner.rules.interface import Mask, Rule
from planner.trainers.common.interface import Difference, Format, Job, Knob, KnobName, MeasuredStep, Trainer
from planner.trainers.common.knobs import all_or_nothing, always, instead, jax_knobs, moments
from planner.trainers.common.rules import keeps_more, kv_heads_rule, whole_stream

JAX = "0.11.2"
MODEL_TYPES: Mapping[str, str] = MappingProxyType({"llama": "llama", "mistral": "llama", "qwen2": "qwen", "qwen3": "qwen3"})

FILE = "levanter.yaml"


def knobs(_: HardwareSpec, jax: str) -> Mapping[KnobName, Knob]:
    """Each knob as Levanter has it."""
    return jax_knobs("Levanter", jax) | {
        "scheme": Knob(instead("all-gather", of=SCHEMES), "splash attention takes sharded queries and whole keys, no ring"),
        "remat": all_or_nothing("gradient_checkpointing is true or false here; its saved names are not lcplan's"),
        "gather_dtype": always("bf16", "mp casts the parameters to bf16 before they are used"),
        "reduce_dtype": always("bf16", "gradients are those of the bf16 parameters"),
        "moments_dtype": moments("fp32", why="moments follow the fp32 parameters"),
    }


def model_problems(model: ModelSpec) -> list[str]:
    """Why Levanter's model configurations cannot be this one."""
    problems = []
    if model.out_bias or model.mlp_bias or (model.qkv_bias and model.family != "qwen2"):
        problems.append(
            f"biases of {model.name}: use_bias is for all biases, and the qwen model has those of query, key and value"
        )
    if model.qk_norm and model.family != "qwen3":
        problems.append(f"{model.name} has query and key norms, which only the qwen3 model has as lcplan means them")
    if model.rope.scaling not in ("none", "llama3"):
        problems.append(f"RoPE scaling {model.rope.scaling!r} of {model.name} is not exported; llama3 scaling is")
    return problems


def extras(job: Job) -> list[Difference]:
    """Differences beyond the knobs of a job as Levanter runs it."""
    found = whole_stream(job, "the embed axis is not split in the compute mapping")
    found += keeps_more(job, "autodiff")
    found.append(
        Difference(
            name="loss",
            plan=f"logits of {job.strategy.loss_chunk_tokens} tokens at a time",
            trainer="its fused kernel's own blocks",
            why="the fused cross-entropy chooses its blocks by device and shape",
        )
    )
    found.append(
        Difference(
            name="vocabulary",
            plan=f"{job.model.vocab} entries",
            trainer="the tokenizer's",
            why="the vocabulary follows data.tokenizer; put in one of this size",
        )
    )
    if job.strategy.mesh.context > 1:
        found.append(
            Difference(
                name="load-balance",
                plan="each rank the same causal work",
                trainer="contiguous chunks, the last works longest",
                why="splash attention under a sharded position axis does not reorder tokens; the balanced case is priced",
            )
        )
    return found


def _context(setting: Setting, table: StrategyTable) -> Mask:
    return (table.context > 1) if setting.hardware.kind != "tpu" else np.zeros(len(table), dtype=bool)


def _say_context(_: Setting, strategy: Strategy) -> str:
    return (
        f"context={strategy.mesh.context}: Levanter has no context parallelism for Llama-like models on GPU; a sharded "
        "position axis compiles, but attention then gathers queries, keys and values of the whole sequence on every device; "
        "use context=1 (fsdp, tensor), or a trainer with a ring (--to maxtext, megatron)"
    )


def _slices(setting: Setting, table: StrategyTable) -> Mask:
    if setting.hardware.kind != "tpu":
        return np.zeros(len(table), dtype=bool)
    return table.data % np.maximum(1, table.devices // setting.hardware.domain_size) != 0


def _say_slices(setting: Setting, strategy: Strategy) -> str:
    count = strategy.devices // setting.hardware.domain_size
    return (
        f"{strategy.mesh.label} over {count} TPU slices: replica_dcn is exported as part of data, so data must "
        f"be a multiple of {count}; use data={near_multiples(count, strategy.mesh.data)}"
    )


_MARIN = "github marin-community/marin#4510"
MEASURED = (
    MeasuredStep("qwen3-8b", "tpu-v5p-64", "fsdp=32", seq_len=32768, global_batch=128, step_s=69.0, source=_MARIN),
    MeasuredStep("qwen3-32b", "tpu-v5p-256", "fsdp=128", seq_len=32768, global_batch=128, step_s=65.0, source=_MARIN),
)
"""Steady steps of fine-tuning runs: Marin 8B at about 69 s, Qwen3 32B at 65 s and 21.1 % MFU."""


TRAINER = Trainer(
    name="levanter",
    title="Levanter 0.2.227",
    package="marin-levanter",
    version="0.2.227.dev40316220070",
    file=FILE,
    kinds=("gpu", "tpu"),
    knobs=knobs,
    rules=(
        Rule("levanter-context", "knob", _context, _say_context),
        Rule("levanter-slices", "knob", _slices, _say_slices),
        kv_heads_rule("levanter"),
    ),
    model_problems=model_problems,
    extras=extras,
    any_axis_order=True,
    measured=MEASURED,
    keys=frozenset({"scheduler"}),
    jax=JAX,
    reads=Format("FILE.yaml", "a Levanter configuration", unsaid=("model", "loss_chunk_tokens"), counts_slices=True),
)
