"""Pre-training: one YAML over MaxText's base.yml, and the environment.

The model's sizes are written out under ``override_model_config``, so that the plan's model is trained.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from types import MappingProxyType
from typing import Any

from lcplan.evidence.plan import Plan
from lcplan.formats.errors import BadInputError
from lcplan.spec.model import ModelSpec
from lcplan.strategy import AXIS_ORDERS
from lcplan.strategy.remat import REMAT_POLICIES
from planner.trainers import Job, Translation
from planner.trainers.common.export_files import Launch, Written, run_name, title, yaml_scalar
from planner.trainers.common.jax_environment import jax_environment, launch_per_device, one_process_per_device
from planner.trainers.maxtext import experts
from planner.trainers.maxtext.compile import topology_words
from planner.trainers.maxtext.facts import DECODER_BLOCKS, FILE, SAVED, SCHEMES, SPLASH_BLOCKS, deals_in_pairs

MESH_AXES = (
    "diloco", "data", "stage", "fsdp", "fsdp_transpose", "context", "context_usp_ulysses", "context_autoregressive", "tensor",
    "tensor_sequence", "expert", "autoregressive",
)  # fmt: skip
"""``mesh_axes`` of MaxText 0.2.5's base.yml, outermost first."""

MODEL_NAMES = frozenset(
    {
        "llama2-7b", "llama2-13b", "llama2-70b", "llama3-8b", "llama3-70b", "llama3.1-8b", "llama3.1-70b", "llama3.1-405b",
        "llama3.3-70b", "qwen2.5-1.5b", "qwen2.5-7b", "qwen2.5-14b", "qwen3-0.6b", "qwen3-1.7b", "qwen3-4b", "qwen3-8b",
        "qwen3-14b", "qwen3-32b",
    }
)  # fmt: skip
"""Models of the catalogue that MaxText has under a name of its own; others are ``default`` with every size written out."""

NUMBERS = MappingProxyType({"dtype": "bfloat16", "weight_dtype": "float32", "grad_dtype": "float32", "mu_dtype": "float32"})
"""Dtypes of activations, masters, gradients and moments."""

NAMED_REMAT = MappingProxyType(
    {
        "full": "full",
        "save-except-mlp": "save_dot_with_context_except_mlp",
        "save-out": "save_out_proj",
        "save-qkv-proj": "save_qkv_proj",
        "dots-except-mlp": "save_dot_except_mlp",
        "offload-qkv-proj": "qkv_proj_offloaded",
    }
)
"""MaxText's policies with the set of one of lcplan's; the others are ``custom``."""


def train_export(translation: Translation, plan: Plan) -> Written:
    """The configuration and its launch line."""
    job = translation.job
    sections = {
        "": {"base_config": "base.yml", "run_name": run_name(translation), "hardware": _hardware(job)},
        "Model": model_keys(job.model),
        "Batch": _batch(job),
        "Mesh": mesh_keys(job),
        "Experts": experts.dispatch_keys(job),
        "Attention and context parallelism": attention_keys(job),
        "Rematerialisation": remat_keys(job),
        "Numbers": NUMBERS,
        "Yours to replace: data and checkpoints": {"dataset_type": "synthetic", "enable_checkpointing": False},
    }
    check = {"overrides": topology_words(job)} if job.hardware.kind == "tpu" else {}
    return Written({FILE: yaml_text(translation, sections)}, _launch(translation, plan), check=check)


def yaml_text(translation: Translation, sections: Mapping[str, Mapping[str, Any]]) -> str:
    """The keys of each section under its heading, as one YAML file."""
    lines = [f"# {title(translation)}"]
    for heading, keys in ((heading, keys) for heading, keys in sections.items() if keys):
        lines += ["", f"# {heading}"] if heading else []
        lines += [f"{key}: {yaml_scalar(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


def _hardware(job: Job) -> str:
    """MaxText's ``hardware``; with one process per device jax finds rank and device of each process."""
    return "gpu_multiprocess" if one_process_per_device(job) else job.hardware.kind


def _launch(translation: Translation, plan: Plan) -> Launch:
    environment = jax_environment(translation, plan)
    command = ("python3", "-m", "maxtext.trainers.pre_train.train", FILE, "base_output_directory=${OUTPUT:-output}")
    if one_process_per_device(translation.job):
        return launch_per_device(translation.job, command, environment)
    notes: tuple[str, ...] = ()
    if translation.job.hardware.kind == "gpu" and translation.job.hosts > 1:
        environment = {"JAX_COORDINATOR_PORT": "1234", "NNODES": str(translation.job.hosts)} | environment
        notes = ("Set JAX_COORDINATOR_IP to the first host and NODE_RANK to 0, 1, .. on each.",)
    return Launch(command, environment, notes=notes)


def model_keys(model: ModelSpec) -> dict[str, Any]:
    """Every size of the model under MaxText's names."""
    rope = model.rope
    name = model.name if model.name in MODEL_NAMES else "default"
    if name.startswith("llama3.1") and rope.scaling != "llama3":
        name = "default"  # the name alone would switch the scaled RoPE on
    keys: dict[str, Any] = {
        "model_name": name,
        "override_model_config": True,
        "decoder_block": DECODER_BLOCKS[model.family],
        "base_num_decoder_layers": model.layers,
        "base_emb_dim": model.d_model,
        "base_mlp_dim": model.d_ff,
        "base_num_query_heads": model.heads,
        "base_num_kv_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "vocab_size": model.vocab,
        "mlp_activations": [model.activation, "linear"],
        "logits_via_embedding": model.tied_embeddings,
        "normalization_layer_epsilon": model.norm_eps,
        "attention_bias": model.qkv_bias,
        "use_qk_norm": model.qk_norm,
        "rope_max_timescale": round(rope.theta),
        "rope_type": {"llama3": "llama3.1", "yarn": "yarn"}.get(rope.scaling, "default"),
    }
    keys |= experts.model_keys(model)
    if rope.scaling == "linear":
        keys["rope_linear_scaling_factor"] = rope.factor
    if rope.scaling == "yarn":
        keys |= {"rope_factor": rope.factor, "beta_fast": rope.beta_fast, "beta_slow": rope.beta_slow}
        keys |= {"original_max_position_embeddings": rope.original_max_position, "rope_interleave": False}
    return keys


def _batch(job: Job) -> dict[str, Any]:
    sequences, devices = job.micro_sequences * job.replicas, job.strategy.devices
    seq = job.workload.seq_len
    return {
        "max_target_length": seq,
        "per_device_batch_size": per_device_batch(sequences, devices, seq=seq, tiles=job.loss_chunks),
        "gradient_accumulation_steps": job.strategy.microbatches,
        "num_vocab_tiling": job.loss_chunks,
    }


def per_device_batch(sequences: int, devices: int, *, seq: int, tiles: int) -> float:
    """``per_device_batch_size`` x that MaxText turns back: ``int(devices x)`` sequences, ``x seq`` a multiple of its tiles.

    Raises
    ------
    BadInputError
        No float of this ratio survives its arithmetic.

    >>> per_device_batch(1, 32, seq=262144, tiles=8)
    0.03125
    """
    exact = sequences / devices
    for size in (exact, exact + exact * 2.0**-52, exact - exact * 2.0**-52):
        if int(devices * size) == sequences and (size * seq) % tiles == 0:
            return size
    raise BadInputError(
        f"maxtext: {sequences} sequences on {devices} devices is per_device_batch_size={exact!r}, which its float arithmetic "
        f"does not turn back into {sequences} sequences and {tiles} vocabulary tiles; use a power of two of devices"
    )


def mesh_keys(job: Job) -> dict[str, Any]:
    """Sizes and order of the axes, inside a slice and across slices."""
    mesh, order = job.strategy.mesh, job.strategy.axis_order
    outer = split_slices(job)
    keys: dict[str, Any] = {}
    axes = ("data", "fsdp", "context", "tensor", *("expert",) * (mesh.expert > 1))
    keys |= {f"ici_{axis}_parallelism": getattr(mesh, axis) // outer[axis] for axis in axes}
    keys |= {f"dcn_{axis}_parallelism": outer[axis] for axis in axes}
    if order != AXIS_ORDERS[0] or mesh.expert > 1:
        keys["mesh_axes"] = _mesh_axes(job)
    if job.hardware.kind == "tpu":
        keys["allow_split_physical_axes"] = True
        slices = _slices(job)
        keys |= {"num_slices": slices} if slices > 1 else {}
    return keys


def _mesh_axes(job: Job) -> list[str]:
    """MaxText's axes with fsdp and context in the plan's order, and experts outside tensor, as lcplan places them."""
    if job.strategy.axis_order == AXIS_ORDERS[0]:
        axes = list(MESH_AXES)
    else:
        ours = [axis for axis in job.strategy.axis_order if axis in ("fsdp", "context")]
        inner = [axis for axis in MESH_AXES if axis not in ours]
        at = inner.index("fsdp_transpose")
        axes = [*inner[:at], *ours, *inner[at:]]
    if job.strategy.mesh.expert > 1:
        axes.remove("expert")
        axes.insert(axes.index("tensor"), "expert")
    return axes


def _slices(job: Job) -> int:
    return max(1, job.strategy.devices // job.hardware.domain_size) if job.hardware.kind == "tpu" else 1


def split_slices(job: Job) -> dict[str, int]:
    """The part of each axis that crosses TPU slices (dcn); on GPU none, since its mesh is one row of devices."""
    left = _slices(job)
    outer: dict[str, int] = {}
    for axis in job.strategy.axis_order:
        outer[axis] = gcd(left, getattr(job.strategy.mesh, axis))
        left //= outer[axis]
    assert left == 1, "rule maxtext-slices refuses a mesh that does not split"
    return outer


def attention_keys(job: Job) -> dict[str, Any]:
    """Attention's kernel, packing, and the exchange over context."""
    tpu, context, document = job.hardware.kind == "tpu", job.strategy.mesh.context, job.workload.document_len
    keys: dict[str, Any] = {"attention": "flash" if tpu else "cudnn_flash_te", "packing": document is not None}
    if document is not None and not tpu:  # Transformer Engine must know the most; the plan's documents are of one length
        keys["max_segments_per_seq"] = -(-job.workload.seq_len // document)
    if job.strategy.attention_block:
        keys |= dict.fromkeys(SPLASH_BLOCKS, job.strategy.attention_block)
    if context == 1:
        return keys
    strategy, balanced = SCHEMES[job.strategy.scheme]
    if tpu and strategy in ("ring", "ulysses"):
        keys |= {"use_tokamax_splash": True, "use_jax_splash": False, "dq_reduction_steps": 3}
    if strategy == "all_gather":
        balanced = deals_in_pairs(job)
    return keys | {"context_parallel_strategy": strategy, "context_parallel_load_balance": balanced}


def remat_keys(job: Job) -> dict[str, Any]:
    """The policy by its name, or tensor by tensor."""
    policy = job.strategy.remat
    if policy in NAMED_REMAT:
        return {"remat_policy": NAMED_REMAT[policy]}
    kept, offloaded = REMAT_POLICIES[policy].kept, REMAT_POLICIES[policy].offloaded
    names = SAVED if job.model.experts is None else {**SAVED, **{tensor: (name,) for tensor, name in experts.SAVED.items()}}
    places = {name: "device" for tensor in kept for name in names.get(tensor, ())}
    places |= {name: "offload" for tensor in offloaded for name in names.get(tensor, ())}
    return {"remat_policy": "custom", **places}
