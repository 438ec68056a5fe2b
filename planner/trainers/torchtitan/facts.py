"""torchtitan 0.3.0: the strategies that a configuration module can express.

Read in the package (``config/configs.py``, ``distributed/context_parallel``, ``distributed/activation_checkpoint.py``,
``components/loss.py``, ``trainer.py``). Context parallelism is FlexAttention over gathered keys and values; FSDP shards over
dp_shard x cp.
"""

from __future__ import annotations

from collections.abc import Mapping

from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.formats.nearest import near_multiples
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.model import ModelSpec
from lcplan.strategy import Strategy
from planner.rules.interface import Mask, Rule
from planner.trainers.common.interface import Difference, Format, Job, Knob, KnobName, Trainer, not_masked
from planner.trainers.common.knobs import always, as_is, besides, instead, moments, other_schemes, torch_knobs
from planner.trainers.common.programs import TORCHTITAN as TITAN_STEP
from planner.trainers.common.rules import keeps_more, kept_bytes, kv_heads_rule, two_chunks_rule
from planner.trainers.torchtitan import experts

MODULE = "lcplan_torchtitan"


def knobs(_: HardwareSpec, __: str) -> Mapping[KnobName, Knob]:
    """Each knob as torchtitan has it."""
    return torch_knobs("torchtitan") | {
        "scheme": Knob(
            as_is("all-gather") | instead("all-gather", of=other_schemes("all-gather")),
            "context parallelism gathers keys and values (flex_cp_allgather), balanced by PTRR; no ring, no Ulysses",
        ),
        "remat": Knob(
            as_is("full", "save-attention", "save-all")
            | instead("save-all", "save-attention", of=besides("full", "save-attention", "save-all")),
            "selective checkpointing counts matrix products, not names; the nearest that keeps more, else only attention",
        ),
        "gather_dtype": always("bf16", "mixed_precision_param is also its compute dtype"),
        "reduce_dtype": always("fp32", "mixed_precision_reduce takes float32 only"),
        "moe_dispatch": experts.DISPATCH,
        "moments_dtype": moments("fp32", why="moments follow training.dtype, which is the masters' too"),
    }


def model_problems(model: ModelSpec) -> list[str]:
    """Why torchtitan's llama3 and qwen3 models cannot be this one."""
    problems = experts.model_problems(model)
    if model.activation != "silu" or model.qkv_bias or model.out_bias or model.mlp_bias:
        problems.append(f"{model.name}: its llama3 and qwen3 models have SwiGLU and no biases")
    if not model.qk_norm and model.heads * model.head_dim != model.d_model:
        problems.append(f"{model.name}: its llama3 model has heads x head_dim = d_model, here {model.heads * model.head_dim}")
    if model.rope.scaling not in ("none", "llama3") or (model.qk_norm and model.rope.scaling == "llama3"):
        problems.append(f"RoPE scaling {model.rope.scaling!r} of {model.name} is not among its own")
    return problems


def extras(job: Job) -> list[Difference]:
    """Differences beyond the knobs of a job as torchtitan runs it."""
    return [*keeps_more(job, "autograd"), *experts.extras(job)]


def _loss_pieces(setting: Setting, table: StrategyTable) -> Mask:
    sequences = setting.workload.global_batch // (table.data * table.fsdp * table.expert * table.microbatches).clip(min=1)
    return table.loss_chunk_tokens % sequences.clip(min=1) != 0


def _say_loss_pieces(setting: Setting, strategy: Strategy) -> str:
    mesh = strategy.mesh
    sequences = setting.workload.global_batch // (mesh.batch_ranks * strategy.microbatches)
    return (
        f"loss_chunk_tokens={strategy.loss_chunk_tokens} is no multiple of the {sequences} sequences of a microbatch, which "
        "torchtitan's chunked loss cuts alike; use more microbatches, or --loss-chunk-tokens "
        f"{near_multiples(sequences, strategy.loss_chunk_tokens)}"
    )


TRAINER = Trainer(
    name="torchtitan",
    title="torchtitan 0.3.0",
    package="torchtitan",
    version="0.3.0",
    file=f"{MODULE}.py",
    kinds=("gpu",),
    knobs=knobs,
    rules=(
        Rule("torchtitan-loss-pieces", "knob", _loss_pieces, _say_loss_pieces),
        two_chunks_rule("torchtitan", with_tensor=True),
        kv_heads_rule("torchtitan"),
        *experts.RULES,
    ),
    model_problems=model_problems,
    extras=extras,
    further_bytes=kept_bytes,
    experts=True,
    folds_experts=True,
    splits_experts=False,
    keys=frozenset({"expert_fold", "expert_tensor"}),
    documents_lost=not_masked("torchtitan"),
    program=TITAN_STEP,
    changes="changes",
    reads=Format("FILE", "a torchtitan TOML, or a Python module read as syntax (FILE:function)"),
)
