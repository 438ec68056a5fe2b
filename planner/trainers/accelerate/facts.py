"""Accelerate 1.15.0 with FSDP2 and ParallelismConfig, on Transformers models: the strategies that its YAML can express.

Read in the package (``parallelism_config.py``, ``accelerator.py``) and in torch's context parallelism that it calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.spec.hardware import HardwareSpec
from lcplan.strategy import Strategy
from planner.rules.interface import Mask, Rule
from planner.trainers.common.interface import Difference, Format, Job, Knob, KnobName, Trainer, not_masked
from planner.trainers.common.knobs import all_or_nothing, always, as_is, instead, moments, other_schemes, torch_knobs
from planner.trainers.common.programs import TRANSFORMERS
from planner.trainers.common.rules import keeps_more, kv_heads_rule, two_chunks_rule, whole_stream

ROTATION: Mapping[str, str] = MappingProxyType({"ring-zigzag": "alltoall", "all-gather": "allgather"})
"""``parallelism_config_cp_comm_strategy`` of each scheme: torch's ring rotates by all-to-all, or gathers at once."""

FILE = "accelerate.yaml"


def knobs(_: HardwareSpec, __: str) -> Mapping[KnobName, Knob]:
    """Each knob as Accelerate has it."""
    return torch_knobs("Accelerate") | {
        "scheme": Knob(
            as_is(*ROTATION) | instead("ring-zigzag", of=other_schemes(*ROTATION)),
            "torch's context parallelism is a head-tail balanced ring or a gather; Ulysses goes by DeepSpeed (--to deepspeed)",
        ),
        "remat": all_or_nothing("fsdp_activation_checkpointing is on or off; off where that fits"),
        "gather_dtype": always("bf16", "FSDP2's mixed precision follows mixed_precision: bf16"),
        "reduce_dtype": always("bf16", "FSDP2's mixed precision reduces in bf16 too"),
        "moments_dtype": moments("fp32", why="torch's AdamW keeps moments in the parameters' fp32"),
    }


def extras(job: Job) -> list[Difference]:
    """Differences beyond the knobs of a job as Accelerate runs it."""
    found = whole_stream(job, "Transformers' tensor parallel plans replicate activations between layers")
    return found + keeps_more(job, "autograd")


def _nothing_to_shard(_: Setting, table: StrategyTable) -> Mask:
    return table.fsdp * table.context == 1


def _say_nothing_to_shard(_: Setting, strategy: Strategy) -> str:
    return (
        f"FSDP2 in Accelerate needs dp_shard x cp above 1 (its mesh dim dp_shard_cp), and {strategy.mesh.label} has neither; "
        "use fsdp or context of at least 2"
    )


def _replicas_alone(_: Setting, table: StrategyTable) -> Mask:
    return (table.data > 1) & (table.fsdp == 1) & (table.tensor * table.context > 1)


def _say_replicas_alone(_: Setting, strategy: Strategy) -> str:
    return (
        f"Accelerate refuses dp_replicate={strategy.mesh.data} with dp_shard=1 next to tensor or context parallelism; "
        "use fsdp in place of data"
    )


def _rotates(table: StrategyTable) -> Mask:
    """Mark the rows whose ranks attend by torch's context parallelism, because they do not see whole sequences."""
    return table.scheme_has(lambda facts: not facts.sees_whole_sequences)


def _windows(setting: Setting, table: StrategyTable) -> Mask:
    return np.asarray(_rotates(table) & setting.model.windows_within(setting.workload.seq_len))


def _say_windows(setting: Setting, strategy: Strategy) -> str:
    return (
        f"context={strategy.mesh.context}: torch's context parallelism has only the causal mask, so the window of "
        f"{setting.model.sliding_window} tokens of {setting.model.name} is dropped unsaid, and another model is trained; "
        "use context=1"
    )


def _sinks(setting: Setting, table: StrategyTable) -> Mask:
    return np.asarray(_rotates(table) & setting.model.attention_sinks)


def _say_sinks(setting: Setting, strategy: Strategy) -> str:
    return (
        f"context={strategy.mesh.context}: torch's context parallelism runs in scaled_dot_product_attention, which has no "
        f"attention sinks as {setting.model.name} has them; use context=1"
    )


TRAINER = Trainer(
    name="accelerate",
    title="Accelerate 1.15.0",
    package="accelerate",
    version="1.15.0",
    file=FILE,
    kinds=("gpu",),
    knobs=knobs,
    rules=(
        Rule("accelerate-shards", "knob", _nothing_to_shard, _say_nothing_to_shard),
        Rule("accelerate-windows", "knob", _windows, _say_windows),
        Rule("accelerate-sinks", "knob", _sinks, _say_sinks),
        Rule("accelerate-replicas", "knob", _replicas_alone, _say_replicas_alone),
        two_chunks_rule("accelerate", with_tensor=False),
        kv_heads_rule("accelerate"),
    ),
    extras=extras,
    documents_lost=not_masked("Accelerate"),
    whole_loss=True,
    program=TRANSFORMERS,
    changes="changes",
    reads=Format("FILE.yaml", "an Accelerate launch YAML", unsaid=("model", "seq", "global_batch", "microbatches")),
)
