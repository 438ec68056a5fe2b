"""DeepSpeed 0.19.8, ZeRO-3 with Ulysses, on Transformers models: what its JSON and its registration call can say.

Read in the package (``runtime/config.py``, ``runtime/engine.py``, ``runtime/sequence_parallel``).
"""

from __future__ import annotations

from collections.abc import Mapping

from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.model import ModelSpec
from lcplan.strategy import SCHEMES, Strategy
from planner.rules.interface import Mask, Rule
from planner.trainers.common.interface import (
    Difference,
    Job,
    Knob,
    KnobName,
    Trainer,
    as_is,
    besides,
    instead,
    no_ring_matmul,
    not_masked,
)
from planner.trainers.common.programs import TRANSFORMERS
from planner.trainers.common.rules import (
    NCCL_WHY,
    bf16_copy,
    keeps_more,
    kv_heads_rule,
    only_nccl,
    whole_stream,
)


def knobs(_: HardwareSpec, __: str) -> Mapping[KnobName, Knob]:
    """Each knob as DeepSpeed has it."""
    return {
        "scheme": Knob(instead("ulysses", of=SCHEMES), "DeepSpeed's sequence parallelism is Ulysses"),
        "remat": Knob(
            as_is("full", "none") | instead("none", "full", of=besides("full", "none")),
            "Transformers' gradient_checkpointing is on or off; off where that fits",
        ),
        "backend": Knob(only_nccl(), NCCL_WHY),
        "collective_matmul": no_ring_matmul("DeepSpeed"),
        "gather_dtype": Knob({"bf16": ("bf16",), "fp32": ("bf16",)}, "ZeRO-3 keeps and gathers parameters in bf16"),
        "reduce_dtype": Knob(as_is("bf16", "fp32")),
        "moments_dtype": Knob({"fp32": ("fp32",), "bf16": ("fp32",)}, "the optimizer's states are fp32"),
    }


def model_problems(_: ModelSpec) -> list[str]:
    """Every dense decoder that lcplan has is a Transformers model."""
    return []


def extras(job: Job) -> list[Difference]:
    """Differences beyond the knobs of a job as DeepSpeed runs it."""
    found = bf16_copy(job, "ZeRO-3 keeps bf16 parameters and fp32 masters, both sharded")
    found += whole_stream(job, "AutoTP replicates activations between layers")
    return found + keeps_more(job, "autograd")


def _tensor_and_sequence(_: Setting, table: StrategyTable) -> Mask:
    return (table.tensor > 1) & (table.context > 1)


def _say_tensor_and_sequence(_: Setting, strategy: Strategy) -> str:
    return (
        f"{strategy.mesh.label}: DeepSpeed's AutoTP and Ulysses each build a two-dimensional mesh of their own over all "
        "ranks and do not compose; use tensor=1, or context=1"
    )


def _tensor_and_zero_three(_: Setting, table: StrategyTable) -> Mask:
    return (table.tensor > 1) & (table.data * table.fsdp * table.context * table.expert > 1)


def _say_tensor_and_zero_three(_: Setting, strategy: Strategy) -> str:
    return (
        f"{strategy.mesh.label}: DeepSpeed trains AutoTP with ZeRO 0, 1 and 2 only, and refuses ZeRO-3 beside it as it builds "
        "its engine (deepspeedai/DeepSpeed#8167); use tensor=1, or another trainer for tensor parallelism"
    )


TRAINER = Trainer(
    name="deepspeed",
    title="DeepSpeed 0.19.8",
    package="deepspeed",
    version="0.19.8",
    kinds=("gpu",),
    knobs=knobs,
    rules=(
        Rule("deepspeed-tensor-sequence", "knob", _tensor_and_sequence, _say_tensor_and_sequence),
        Rule("deepspeed-tensor-zero", "knob", _tensor_and_zero_three, _say_tensor_and_zero_three),
        kv_heads_rule("deepspeed", ""),
    ),
    model_problems=model_problems,
    extras=extras,
    documents_lost=not_masked("DeepSpeed"),
    whole_loss=True,
    replicates=False,
    program=TRANSFORMERS,
)
