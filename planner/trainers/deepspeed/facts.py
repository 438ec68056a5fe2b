"""DeepSpeed 0.19.8, ZeRO-3 with Ulysses, on Transformers models: strategies of its JSON and its registration call.

Read in the package (``runtime/config.py``, ``runtime/engine.py``, ``runtime/sequence_parallel``).
"""

from __future__ import annotations

from collections.abc import Mapping

from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.spec.hardware import HardwareSpec
from lcplan.strategy import SCHEMES, Strategy
from planner.rules.interface import Mask, Rule
from planner.trainers.common.interface import Difference, Format, Job, Knob, KnobName, Trainer, not_masked
from planner.trainers.common.knobs import all_or_nothing, always, either_dtype, instead, moments, torch_knobs
from planner.trainers.common.programs import TRANSFORMERS
from planner.trainers.common.rules import bf16_copy, keeps_more, kv_heads_rule, whole_stream

FILE = "deepspeed.json"


def knobs(_: HardwareSpec, __: str) -> Mapping[KnobName, Knob]:
    """Each knob as DeepSpeed has it."""
    return torch_knobs("DeepSpeed") | {
        "scheme": Knob(instead("ulysses", of=SCHEMES), "DeepSpeed's sequence parallelism is Ulysses"),
        "remat": all_or_nothing("Transformers' gradient_checkpointing is on or off; off where that fits"),
        "gather_dtype": always("bf16", "ZeRO-3 keeps and gathers parameters in bf16"),
        "reduce_dtype": either_dtype(),
        "moments_dtype": moments("fp32", why="the optimizer's states are fp32"),
    }


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
        f"{strategy.mesh.label}: DeepSpeed trains AutoTP with ZeRO 0, 1 and 2 only, and refuses ZeRO-3 with it as it builds "
        "its engine (deepspeedai/DeepSpeed#8167); use tensor=1, or another trainer for tensor parallelism"
    )


TRAINER = Trainer(
    name="deepspeed",
    title="DeepSpeed 0.19.8",
    package="deepspeed",
    version="0.19.8",
    file=FILE,
    kinds=("gpu",),
    knobs=knobs,
    rules=(
        Rule("deepspeed-tensor-sequence", "knob", _tensor_and_sequence, _say_tensor_and_sequence),
        Rule("deepspeed-tensor-zero", "knob", _tensor_and_zero_three, _say_tensor_and_zero_three),
        kv_heads_rule("deepspeed"),
    ),
    extras=extras,
    documents_lost=not_masked("DeepSpeed"),
    whole_loss=True,
    replicates=False,
    program=TRANSFORMERS,
    changes="changes",
    reads=Format("FILE.json", "a DeepSpeed JSON", unsaid=("model", "seq", "remat")),
)
