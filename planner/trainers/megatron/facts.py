"""Megatron-LM / megatron-core 0.19.2: the strategies that its arguments can express, and the gaps of its validator.

Read in the package (``training/arguments.py``, ``core/transformer/transformer_config.py``, ``core/distributed``). ZeRO-3 over
fsdp x context is Megatron-FSDP, which shards over the joined data and context ranks; data replicas are its HSDP instances.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from cost_models.inputs.layout import Floats
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.model import ModelSpec
from planner.trainers.common.interface import Difference, Format, Job, Knob, KnobName, Trainer, not_masked
from planner.trainers.common.knobs import always, as_is, besides, either_dtype, instead, moments, other_schemes, torch_knobs
from planner.trainers.common.programs import MEGATRON_FSDP
from planner.trainers.common.rules import bf16_copy, bf16_copy_bytes, keeps_more, kept_bytes, two_chunks_rule, ulysses_kv_rule
from planner.trainers.megatron import experts

SCHEMES: Mapping[str, str] = MappingProxyType({"ring-zigzag": "p2p", "all-gather": "all_gather", "ulysses": "a2a"})
"""``--cp-comm-type`` of each scheme that Megatron has."""

LLAMA3_SCALING = (1.0, 4.0, 8192)
"""Low and high frequency factors and original length of ``--use-rope-scaling``; its factor is an argument."""

FILE = "megatron.args"


def knobs(_: HardwareSpec, __: str) -> Mapping[KnobName, Knob]:
    """Each knob as Megatron has it."""
    return torch_knobs("Megatron") | {
        "scheme": Knob(
            as_is(*SCHEMES)
            | instead("ring-zigzag", of=other_schemes(*SCHEMES))
            | instead("ulysses", "ring-zigzag", of=("ulysses",)),
            "Megatron's rings are always zigzag (2 x context chunks), its all-to-all does not replicate key/value heads, "
            "and the layout of a2a+p2p differs from that of ulysses-ring",
        ),
        "remat": Knob(
            as_is("full", "save-except-mlp", "save-all")
            | instead("save-except-mlp", "full", of=besides("full", "save-except-mlp", "save-all")),
            "selective recomputation of mlp and layernorm is the nearest that keeps at least these; else full",
        ),
        "collective_matmul": Knob(
            as_is("off", "one-way") | instead("one-way", of=("two-way",)),
            "--tp-comm-overlap runs the gathers and scatters of the stream in rings of one direction during the products",
        ),
        "gather_dtype": always("bf16", "parameters are kept and gathered in bf16"),
        "reduce_dtype": either_dtype(),
        "moments_dtype": moments("fp32", "bf16", why="its files choose fp32 or bf16"),
    }


def model_problems(model: ModelSpec) -> list[str]:
    """Why Megatron's arguments cannot describe a model."""
    problems = experts.model_problems(model)
    if model.activation != "silu":
        problems.append(f"activation {model.activation} of {model.name}: of the gated ones its arguments name only --swiglu")
    if model.out_bias != model.mlp_bias or (model.out_bias and not model.qkv_bias):
        problems.append(f"biases of {model.name}: --disable-bias-linear is for all, --add-qkv-bias for inputs")
    if model.rope.scaling in ("dynamic", "yarn"):
        problems.append(f"RoPE scaling {model.rope.scaling!r} of {model.name}: its arguments have linear and llama3 scaling")
    return problems


def extras(job: Job) -> list[Difference]:
    """Differences beyond the knobs of a job as Megatron runs it."""
    found = bf16_copy(job, "Megatron-FSDP keeps the module's bf16 weights and fp32 main weights, both sharded")
    found += keeps_more(job, "Transformer Engine")
    rope = job.model.rope
    if rope.scaling == "llama3" and (rope.low_freq_factor, rope.high_freq_factor, rope.original_max_position) != LLAMA3_SCALING:
        planned = f"{rope.low_freq_factor:g}, {rope.high_freq_factor:g}, {rope.original_max_position}"
        why = "--use-rope-scaling has these in the source; memory and time are the same, positions are not"
        found.append(Difference(name="rope", plan=f"llama3 scaling {planned}", trainer="llama3 scaling 1, 4, 8192", why=why))
    return [*found, *experts.extras(job)]


def further_bytes(setting: Setting, table: StrategyTable) -> Floats:
    """Bytes of ``extras`` for many strategies."""
    return bf16_copy_bytes(setting, table) + kept_bytes(setting, table)


TRAINER = Trainer(
    name="megatron",
    title="Megatron-LM (megatron-core 0.19.2)",
    package="megatron-core",
    version="0.19.2",
    file=FILE,
    kinds=("gpu",),
    knobs=knobs,
    rules=(two_chunks_rule("megatron", with_tensor=False), ulysses_kv_rule("megatron"), *experts.RULES),
    model_problems=model_problems,
    extras=extras,
    documents_lost=not_masked("Megatron-LM"),
    further_bytes=further_bytes,
    whole_loss=True,
    experts=True,
    folds_experts=True,
    keys=frozenset({"expert_fold", "expert_tensor"}),
    program=MEGATRON_FSDP,
    changes="changes",
    reads=Format("ARGS", "a file of Megatron-LM arguments"),
)
