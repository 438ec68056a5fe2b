"""MaxText 0.2.5: the strategies that its configuration can express, and the gaps of its validator.

Read in the package (``configs/types.py``, ``layers/nnx_decoders.py``, ``utils/vocabulary_tiling.py``) and in executables that
its ``train_compile`` built for v5p with jax 0.11.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.formats.nearest import near_divisors
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.model import ModelSpec
from lcplan.strategy import AXIS_ORDERS, SCHEME_FACTS, Scheme, Strategy
from lcplan.strategy.remat import LAYER_IN, REMAT_POLICIES
from planner.rules.interface import Mask, Rule
from planner.trainers.common.interface import Difference, Format, Job, Knob, KnobName, Trainer
from planner.trainers.common.knobs import always, as_is, instead, jax_knobs, moments, other_schemes
from planner.trainers.maxtext import experts

FILE = "maxtext.yml"
JAX = "0.11.2"
DECODER_BLOCKS: Mapping[str, str] = MappingProxyType(
    {"llama": "llama2", "mistral": "mistral", "qwen2": "qwen2", "qwen3": "qwen3", **experts.BLOCKS}
)
"""MaxText's decoder block of each of lcplan's families."""

SPLASH_BLOCKS = (
    "sa_block_q", "sa_block_kv", "sa_block_kv_compute", "sa_block_q_dkv", "sa_block_kv_dkv", "sa_block_kv_dkv_compute",
    "sa_block_q_dq", "sa_block_kv_dq",
)  # fmt: skip
"""Keys of the tiles of its splash kernels; lcplan's step has one size for all of them."""
SCHEMES: Mapping[Scheme, tuple[str, bool]] = MappingProxyType(
    {"ring": ("ring", False), "ring-zigzag": ("ring", True), "all-gather": ("all_gather", True), "ulysses": ("ulysses", False)}
)
"""``context_parallel_strategy`` and ``context_parallel_load_balance`` of each scheme."""

SAVED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "query": ("query_proj",),
        "key": ("key_proj",),
        "value": ("value_proj",),
        "attention_output": ("context",),
        "lse": ("context",),
        "attention_out": ("out_proj",),
        "gate": ("mlpwi_0",),
        "up": ("mlpwi_1",),
        LAYER_IN: ("decoder_layer_input",),
    }
)
"""MaxText's checkpoint names of lcplan's named tensors: its ``context`` is output and log-sum-exp."""


def knobs(hardware: HardwareSpec, jax: str) -> Mapping[KnobName, Knob]:
    """Each knob as MaxText has it on this hardware under this jax."""
    tpu = hardware.kind == "tpu"
    there = [name for name in SCHEMES if tpu or not SCHEME_FACTS[name].sees_whole_sequences]
    schemes = as_is(*there) | instead("ring-zigzag", of=other_schemes(*there))
    return jax_knobs("MaxText", jax) | {
        "scheme": Knob(schemes, "MaxText runs Ulysses on TPU only, and lcplan writes no context_usp_ulysses axis"),
        "remat": Knob(as_is(*REMAT_POLICIES)),
        "gather_dtype": always("bf16", "weights are cast to dtype before they are gathered"),
        "reduce_dtype": always(
            "bf16",
            "gradients leave their product in bf16 and are reduced so (read in the executable of train_compile)",
        ),
        "moments_dtype": moments("fp32", why="mu_dtype sets the first moment only; the second stays in fp32"),
    }


def model_problems(model: ModelSpec) -> list[str]:
    """Why MaxText's configuration cannot describe a model."""
    problems = experts.model_problems(model)
    if model.activation not in ("silu", "gelu", "relu"):
        problems.append(f"activation {model.activation} of {model.name} has no name in mlp_activations")
    if model.out_bias or model.mlp_bias:
        problems.append(f"{model.name} has biases on its attention output or feed-forward; the decoder block has no biases")
    if model.rope.scaling == "dynamic":
        problems.append(f"MaxText has no RoPE scaling 'dynamic' ({model.name}); it has default, linear, llama3.1 and yarn")
    if model.qkv_bias and model.family != "qwen2":
        problems.append(f"{model.name} has query, key and value biases; only the qwen2 decoder block reads attention_bias")
    return problems


LLAMA3_1_SCALING = (8.0, 1.0, 4.0, 8192)
"""Factor, low and high frequency factors and original length that MaxText's llama3.1 RoPE is written for."""


def _of_rl(job: Job) -> list[Difference]:
    """Differences of an iteration of reinforcement learning."""
    element = {"bf16": 2, "fp32": 4}[job.strategy.gather_dtype]
    return [
        Difference(
            name="sampler",
            plan="lcplan's decode steps over a cache of the planned size",
            trainer="vLLM with a paged cache of hbm_utilization_vllm of the device",
            why="its RL samples with vLLM; lcplan prices its own rollout",
        ),
        Difference(
            name="reference-model",
            plan=f"matrices in {job.strategy.gather_dtype}",
            trainer="fp32, as the policy's",
            why="policy and reference have one weight_dtype",
            extra_bytes=round((4 - element) * job.state_elements),
        ),
    ]


def extras(job: Job) -> list[Difference]:
    """Differences beyond the knobs of a job as MaxText runs it."""
    found = [] if job.iteration is None else _of_rl(job)
    rope = job.model.rope
    if rope.scaling == "llama3" and _llama3_scaling(job.model) != LLAMA3_1_SCALING:
        planned, fixed = (", ".join(f"{x:g}" for x in values) for values in (_llama3_scaling(job.model), LLAMA3_1_SCALING))
        why = "its llama3.1 RoPE has these in the source; memory and time are the same, positions are not"
        found.append(Difference(name="rope", plan=f"llama3 scaling {planned}", trainer=f"llama3.1 scaling {fixed}", why=why))
    if job.strategy.mesh.tensor > 1:
        found.append(
            Difference(
                name="residual-stream",
                plan="T/tensor between layers (sequence parallel)",
                trainer="D/tensor between layers",
                why="the tensor axis splits activation_embed; as many bytes, an all-reduce where lcplan has a reduce-scatter",
            )
        )
    if job.strategy.scheme == "all-gather" and job.strategy.mesh.context > 1 and not deals_in_pairs(job):
        found.append(
            Difference(
                name="load-balance",
                plan="each rank the same causal work",
                trainer="contiguous chunks, the last works longest",
                why="its balance needs an even context and 2 x context chunks; the cost model prices the balanced case",
            )
        )
    if job.micro_sequences * job.replicas < job.strategy.devices:
        sequences = job.micro_sequences * job.replicas
        found.append(
            Difference(
                name="loader",
                plan=f"sequences per microbatch: {sequences}",
                trainer=f"loads {job.strategy.devices} a microbatch and trains on {sequences}",
                why="per_device_batch_size is below 1 (global_batch_size_to_load); matters only to the input pipeline",
            )
        )
    return [*found, *experts.extras(job)]


def deals_in_pairs(job: Job) -> bool:
    """Whether MaxText can deal a sequence's chunks so that every context rank has a front and a back one."""
    context = job.strategy.mesh.context
    return context % 2 == 0 and job.workload.seq_len % (2 * context) == 0


def _llama3_scaling(model: ModelSpec) -> tuple[float, float, float, int]:
    rope = model.rope
    return rope.factor, rope.low_freq_factor, rope.high_freq_factor, rope.original_max_position or 0


def _ring(table: StrategyTable) -> Mask:
    return table.scheme_has(lambda facts: facts.rings and facts.exchange == "nothing")


def _ring_squared(setting: Setting, table: StrategyTable) -> Mask:
    broken = _ring(table) & (setting.workload.seq_len % (table.context * table.context) != 0)
    return broken if setting.hardware.kind == "tpu" else np.zeros(len(table), dtype=bool)


def _say_ring_squared(setting: Setting, strategy: Strategy) -> str:
    context, seq = strategy.mesh.context, setting.workload.seq_len
    return (
        f"MaxText's ring on TPU needs seq_len % context^2 == 0; {context}^2 = {context**2} does not divide {seq}: "
        "use scheme=all-gather, another context, or {near_multiples(context**2, seq)} tokens"
    )


def _zigzag_odd(setting: Setting, table: StrategyTable) -> Mask:
    """Chunks are assigned in pairs (``reorder_sequence``), except packed sequences on GPU, which are laid out in stripes."""
    zigzag = _ring(table) & table.scheme_has(lambda facts: facts.balanced) & (table.context % 2 == 1)
    striped = setting.hardware.kind == "gpu" and getattr(setting.workload, "document_len", None) is not None
    return np.zeros(len(table), dtype=bool) if striped else zigzag


def _say_zigzag_odd(_: Setting, strategy: Strategy) -> str:
    return f"MaxText's load-balanced ring needs an even context, not {strategy.mesh.context}; use scheme=ring"


def _ulysses(setting: Setting, table: StrategyTable) -> Mask:
    used = table.scheme_has(lambda facts: facts.sees_whole_sequences)
    kv_heads = setting.model.kv_heads // np.minimum(table.tensor, setting.model.kv_heads)
    return used & ((kv_heads % table.context != 0) | (setting.model.kv_heads == 1))


def _say_ulysses(setting: Setting, strategy: Strategy) -> str:
    return (
        f"MaxText's Ulysses needs context={strategy.mesh.context} to divide the {setting.model.kv_heads} key/value heads of "
        f"{setting.model.name} over tensor={strategy.mesh.tensor}; use scheme=ring-zigzag or all-gather"
    )


def _kv_heads(setting: Setting, table: StrategyTable) -> Mask:
    return setting.model.kv_heads % table.tensor != 0


def _say_kv_heads(setting: Setting, strategy: Strategy) -> str:
    heads = setting.model.kv_heads
    return (
        f"tensor={strategy.mesh.tensor} does not divide kv_heads={heads} of {setting.model.name}, and MaxText replicates none; "
        f"use {near_divisors(heads, strategy.mesh.tensor)}"
    )


def _across_slices(setting: Setting, table: StrategyTable) -> Mask:
    """An axis that is neither wholly across slices nor wholly inside, and does not split evenly. On GPU all axes are ici."""
    count, broken = np.maximum(1, table.devices // setting.hardware.domain_size), np.zeros(len(table), dtype=bool)
    if setting.hardware.kind != "tpu":
        return broken
    for index, order in enumerate(AXIS_ORDERS):
        outer = np.ones(len(table), dtype=np.int64)
        for axis in order:
            outer = outer * getattr(table, axis)
            broken |= (table.axis_order == index) & (count % outer != 0) & (outer % count != 0)
    ulysses = table.scheme_has(lambda facts: facts.sees_whole_sequences) & (count > table.data * table.fsdp)
    return broken | ulysses


def _say_across_slices(setting: Setting, strategy: Strategy) -> str:
    count = max(1, strategy.devices // setting.hardware.domain_size)
    return (
        f"{strategy.mesh.label} over {count} slices: MaxText writes each axis as a dcn and an ici part, and no axis of this "
        f"mesh splits so that the dcn parts make {count}; use powers of two, or keep ulysses inside one slice"
    )


def documents_lost(job: Job) -> str | None:
    """Refuse packing: over a context axis on GPU MaxText packs with only one of its schemes."""
    scheme = job.strategy.scheme
    if job.strategy.mesh.context == 1 or job.hardware.kind != "gpu" or scheme == "ring-zigzag":
        return None
    return f"on GPU MaxText packs sequences over context only with a balanced ring, not with {scheme}"


TRAINER = Trainer(
    name="maxtext",
    title="MaxText 0.2.5",
    package="maxtext",
    version="0.2.5",
    file=FILE,
    kinds=("gpu", "tpu"),
    knobs=knobs,
    rules=(
        Rule("maxtext-ring-squared", "knob", _ring_squared, _say_ring_squared),
        Rule("maxtext-zigzag-even", "knob", _zigzag_odd, _say_zigzag_odd),
        Rule("maxtext-ulysses-heads", "knob", _ulysses, _say_ulysses),
        Rule("maxtext-kv-heads", "knob", _kv_heads, _say_kv_heads),
        Rule("maxtext-slices", "knob", _across_slices, _say_across_slices),
        *experts.RULES,
    ),
    model_problems=model_problems,
    extras=extras,
    documents_lost=documents_lost,
    any_axis_order=True,
    experts=True,
    workloads=("train", "rl"),
    whole_policy_loss=True,
    keys=frozenset({"attention_block", "scheduler"}),
    fused_on_amd=True,
    jax=JAX,
    changes="configuration.changes",
    reads=Format("FILE", "a MaxText configuration, or a file with its command line", unsaid=("backend",), counts_slices=True),
    compiles="tpu",
    steps=("gpu", "tpu"),
)
