"""torchtitan: a configuration module with one function, as ``--module`` and ``--config`` take it."""

from __future__ import annotations

from types import MappingProxyType

from lcplan.evidence.plan import Plan
from lcplan.formats.text import docstring_text
from lcplan.spec.model import ModelSpec
from planner.trainers import Job, Translation
from planner.trainers.common.export_files import Launch, Written, title
from planner.trainers.common.launchers import RENDEZVOUS_NOTE, torchrun
from planner.trainers.torchtitan.facts import MODULE

CONFIG = "plan"
ShapeKey = tuple[str, int, int, int, int, int, int, bool]
ExpertKey = tuple[int, int, int]

FLAVORS: MappingProxyType[ShapeKey, str] = MappingProxyType(
    {
        ("llama3", 16, 2048, 8192, 32, 8, 128256, True): "1B",
        ("llama3", 28, 3072, 8192, 24, 8, 128256, True): "3B",
        ("llama3", 32, 4096, 14336, 32, 8, 128256, False): "8B",
        ("llama3", 80, 8192, 28672, 64, 8, 128256, False): "70B",
        ("llama3", 126, 16384, 53248, 128, 8, 128256, False): "405B",
        ("qwen3", 28, 1024, 3072, 16, 8, 151936, True): "0.6B",
        ("qwen3", 28, 2048, 6144, 16, 8, 151936, True): "1.7B",
        ("qwen3", 36, 2560, 9728, 32, 8, 151936, True): "4B",
        ("qwen3", 36, 4096, 12288, 32, 8, 151936, False): "8B",
        ("qwen3", 40, 5120, 17408, 40, 8, 151936, False): "14B",
        ("qwen3", 64, 5120, 25600, 64, 8, 151936, False): "32B",
    }
)
"""torchtitan 0.3.0's flavors: (model, L, D, F, N, K, V, tied)."""

EXPERT_FLAVORS: MappingProxyType[tuple[ShapeKey, ExpertKey], str] = MappingProxyType(
    {
        (("qwen3", 48, 2048, 0, 32, 4, 151936, False), (128, 8, 768)): "30B-A3B",
        (("qwen3", 94, 4096, 0, 64, 4, 151936, False), (128, 8, 1536)): "235B-A22B",
    }
)
"""The same of mixtures, which have no dense feed-forward: and (E, k, F of an expert)."""

ATTENTION_AC = '''

class SaveAttention(SelectiveAC):
    """Keeps attention's output and log-sum-exp; recomputes the rest of a block."""

    @dataclasses.dataclass(kw_only=True, slots=True)
    class Config(SelectiveAC.Config):
        pass

    def get_save_ops(self):
        return {torch._higher_order_ops.flex_attention}
'''


def export(translation: Translation, _: Plan) -> Written:
    """The module and its launch line."""
    job = translation.job
    parts = [_head(translation), ATTENTION_AC if job.strategy.remat == "save-attention" else "", _function(job)]
    command = (*torchrun(job), "-m", "torchtitan.train", "--module", MODULE, "--config", CONFIG)
    launch = Launch(command, expanded={"PYTHONPATH": ".:${PYTHONPATH:-}"}, notes=(RENDEZVOUS_NOTE,))
    return Written({f"{MODULE}.py": "".join(parts)}, launch, check={"config": CONFIG})


def package(model: ModelSpec) -> str:
    """torchtitan's package for a model: qwen3 has query and key norms and layers with experts, llama3 has neither."""
    return "qwen3" if model.qk_norm or model.experts is not None else "llama3"


def flavor(model: ModelSpec) -> str | None:
    """torchtitan's name of a model of this shape; None: it is built from its sizes."""
    experts, d_ff = model.experts, model.d_ff if model.experts is None else 0
    shape = (package(model), model.layers, model.d_model, d_ff, model.heads, model.kv_heads, model.vocab, model.tied_embeddings)
    if experts is None:
        return FLAVORS.get(shape)
    return EXPERT_FLAVORS.get((shape, (experts.count, experts.active, experts.d_ff))) if model.qk_norm else None


def _head(translation: Translation) -> str:
    model, remat = translation.job.model, translation.job.strategy.remat
    policy = {"full": "FullAC", "save-attention": "SelectiveAC"}.get(remat)
    name = package(model)
    build = "" if flavor(model) else f", {_builder(model)}"
    lines = [
        f'"""{docstring_text(title(translation))}."""',
        "",
        "import dataclasses",
        "",
        *(["import torch"] if remat == "save-attention" else []),
        "from torchtitan.components.loss import ChunkedLossWrapper, CrossEntropyLoss",
        "from torchtitan.config import ParallelismConfig, TrainingConfig",
        *([f"from torchtitan.distributed.activation_checkpoint import {policy}"] if policy else []),
        *([] if flavor(model) else ["from torchtitan.models.common import ComplexRoPE, CosSinRoPE"]),
        f"from torchtitan.models.{name} import model_registry{build}",
        f"from torchtitan.models.{name}.config_registry import {_base(model)} as base_config",
        "",
    ]
    return "\n".join(lines)


def _builder(model: ModelSpec) -> str:
    """The function of torchtitan's package that builds such layers."""
    return f"_build_{package(model)}_{'layers' if model.experts is None else 'moe_layers'}"


def _base(model: ModelSpec) -> str:
    """The shipped configuration that is changed: any of the package's, with experts where the model has them."""
    if model.experts is not None:
        return "qwen3_30b_a3b"
    return "qwen3_14b" if package(model) == "qwen3" else "llama3_8b"


def _function(job: Job) -> str:
    strategy, mesh = job.strategy, job.strategy.mesh
    policy = {"full": "FullAC.Config()", "save-attention": "SaveAttention.Config()"}.get(strategy.remat, "None")
    lines = [
        f"def {CONFIG}():",
        "    config = base_config()",
        *_model(job),
        "    config.training = TrainingConfig(",
        f"        local_batch_size={job.micro_sequences},",
        f"        global_batch_size={job.workload.global_batch},",
        f"        seq_len={job.workload.seq_len},",
        '        dtype="float32",',
        f'        mixed_precision_param="{"float32" if strategy.gather_dtype == "fp32" else "bfloat16"}",',
        '        mixed_precision_reduce="float32",',
        *(["        disable_cuda_graphs=True,"] if job.model.experts else []),  # its all-to-all waits for counts on the host
        "    )",
        "    config.parallelism = ParallelismConfig(",
        f"        data_parallel_replicate_degree={mesh.data},",
        f"        data_parallel_shard_degree={mesh.fsdp * mesh.expert},",
        f"        context_parallel_degree={mesh.context},",
        f"        tensor_parallel_degree={mesh.tensor},",
        *([f"        expert_parallel_degree={job.expert_ranks[0]},"] if job.model.experts else []),
        '        context_parallel_load_balancer="ptrr",',
        '        fsdp_reshard_after_forward="always",',
        "    )",
        f"    config.activation_checkpoint = {policy}",
        "    loss = CrossEntropyLoss.Config(global_vocab_size=VOCAB)",
        f"    config.loss = ChunkedLossWrapper.Config(num_chunks={job.loss_chunks}, loss_fn=loss)",
        "    return config",
        "",
    ]
    tied = "" if flavor(job.model) else f"TIED = {job.model.tied_embeddings}\n"
    tied += "" if flavor(job.model) or job.model.experts is None else f"QK_NORM = {job.model.qk_norm}\n"
    return f"\nVOCAB = {job.model.vocab}\n{tied}\n\n" + "\n".join(lines)


def _model(job: Job) -> list[str]:
    """The model: a flavor with this plan's RoPE (shipped ones stop at their own length), or built from sizes."""
    model = job.model
    known = flavor(model)
    lines = [f'    spec = model_registry("{known or _nearest(model)}", attn_backend="flex")']
    rope = _rope(job)
    if known is None:
        lines += _sizes(model, rope)
    else:
        fields = ", ".join(f"{name}={value!r}" for name, value in rope.items() if name != "dim")
        lines += [
            "    for layer in spec.model.layers:",
            f"        layer.attention.rope = dataclasses.replace(layer.attention.rope, {fields})",
        ]
    return [*lines, "    config.model_spec = spec"]


def _nearest(model: ModelSpec) -> str:
    """The flavor that a model of other sizes is built from."""
    return "8B" if model.experts is None else "30B-A3B"


def _rope(job: Job) -> dict[str, object]:
    rope = job.model.rope
    fields: dict[str, object] = {
        "dim": job.model.head_dim,
        "max_seq_len": max(job.workload.seq_len, job.model.max_position or 0),
        "theta": rope.theta,
        "scaling": "llama" if rope.scaling == "llama3" else "none",
    }
    if rope.scaling == "llama3":
        fields |= {
            "scaling_factor": rope.factor,
            "low_freq_factor": rope.low_freq_factor,
            "high_freq_factor": rope.high_freq_factor,
            "original_max_position_embeddings": rope.original_max_position,
        }
    return fields


def _sizes(model: ModelSpec, rope: dict[str, object]) -> list[str]:
    name, kind = package(model), "CosSinRoPE" if package(model) == "qwen3" else "ComplexRoPE"
    arguments = ", ".join(f"{key}={value!r}" for key, value in rope.items())
    width, head = model.d_model, f"head_dim={model.head_dim}, " if name == "qwen3" else ""
    return [
        f"    rope = {kind}.Config({arguments})",
        "    model = spec.model",
        f"    model.dim, model.vocab_size, model.enable_weight_tying = {width}, VOCAB, TIED",
        f"    model.tok_embeddings = dataclasses.replace(model.tok_embeddings, num_embeddings=VOCAB, embedding_dim={width})",
        f"    model.norm = dataclasses.replace(model.norm, normalized_shape={width}, eps={model.norm_eps!r})",
        f"    model.lm_head = dataclasses.replace(model.lm_head, in_features={width}, out_features=VOCAB)",
        f"    model.layers = {_builder(model)}(",
        f"        n_layers={model.layers}, dim={width}, n_heads={model.heads}, n_kv_heads={model.kv_heads}, {head}",
        f'        {_fed(model)}, attn_backend="flex", rope=rope,',
        "    )",
        *(_norms(model) if model.experts is not None else []),
    ]


def _fed(model: ModelSpec) -> str:
    """The sizes of the feed-forward layers."""
    experts = model.experts
    if experts is None:
        return f"hidden_dim={model.d_ff}"
    sizes = f"moe_hidden_dim={experts.d_ff}, num_experts={experts.count}, top_k={experts.active}"
    return f'{sizes}, moe_comm_backend="standard"'


def _norms(model: ModelSpec) -> list[str]:
    """The norms of qwen3's layers as the model has them."""
    replaced = "        layer.{0} = dataclasses.replace(layer.{0}, eps={1!r})"
    lines = ["    for layer in model.layers:"]
    lines += [replaced.format(norm, model.norm_eps) for norm in ("attention_norm", "ffn_norm")]
    return lines if model.qk_norm else [*lines, "        layer.attention.qk_norm = None"]
