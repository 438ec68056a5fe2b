"""Levanter: one YAML for ``levanter.main.train_lm``. Mesh axes carry lcplan's own names, in the plan's order."""

from __future__ import annotations

from typing import Any

import yaml

from lcplan.evidence.plan import Plan
from lcplan.spec.model import ModelSpec
from planner.trainers import Job, Translation
from planner.trainers.common.export_files import Launch, Written, title
from planner.trainers.common.jax_environment import jax_environment
from planner.trainers.levanter.facts import FILE, MODEL_TYPES

AXES = {"data": "copies", "fsdp": "shards", "context": "context", "tensor": "tensor"}
"""Levanter's names of lcplan's axes. Its own data, replica and model always come first in its mesh, so that
only new names can be put in order."""


def export(translation: Translation, plan: Plan) -> Written:
    """The YAML and its launch line."""
    job = translation.job
    packed = {} if job.workload.document_len is None else {"block_cross_document_attention": True}
    settings = {
        "data": {"tokenizer": "passthrough", "components": {}, **packed},
        "model": _model(job.model, job),
        "train_seq_len": job.workload.seq_len,
        "trainer": _trainer(job),
        "optimizer": {"type": "adam", "learning_rate": 3e-4},
    }
    head = [f"# {title(translation)}", "# Yours to replace: data (tokenizer, components) and optimizer."]
    text = "\n".join(head) + "\n" + yaml.safe_dump(settings, sort_keys=False, width=120, default_flow_style=None)
    command = ("python3", "-m", "levanter.main.train_lm", "--config_path", FILE)
    return Written({FILE: text}, Launch(command, jax_environment(translation, plan)))


def _model(model: ModelSpec, job: Job) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "type": MODEL_TYPES[model.family],
        "max_seq_len": job.workload.seq_len,
        "hidden_dim": model.d_model,
        "intermediate_dim": model.d_ff,
        "num_layers": model.layers,
        "num_heads": model.heads,
        "num_kv_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "activation_function": {"gelu_tanh": "gelu_new"}.get(model.activation, model.activation),
        "layer_norm_epsilon": model.norm_eps,
        "tie_word_embeddings": model.tied_embeddings,
        "attn_backend": "splash" if job.hardware.kind == "tpu" else "nvte",
        "gradient_checkpointing": job.strategy.remat == "full",
        "scan_layers": True,
    }
    rope = model.rope
    settings["rope"] = {"type": "default", "theta": rope.theta}
    if rope.scaling == "llama3":
        settings["rope"] = {
            "type": "llama3",
            "theta": rope.theta,
            "factor": rope.factor,
            "low_freq_factor": rope.low_freq_factor,
            "high_freq_factor": rope.high_freq_factor,
            "original_max_position_embeddings": rope.original_max_position,
        }
    return settings


def _trainer(job: Job) -> dict[str, Any]:
    mesh = job.strategy.mesh
    order = [axis for axis in job.strategy.axis_order if axis in AXES]
    slices = max(1, job.strategy.devices // job.hardware.domain_size) if job.hardware.kind == "tpu" else 1
    sizes = {axis: getattr(mesh, axis) // (slices if axis == "data" else 1) for axis in order}
    compute: dict[str, Any] = {
        "batch": ["replica_dcn", AXES["data"], AXES["fsdp"]],
        "mlp": AXES["tensor"],
        "heads": AXES["tensor"],
    }
    compute |= {"position": AXES["context"]} if mesh.context > 1 else {}
    return {
        "mp": "p=f32,c=bf16",
        "train_batch_size": job.workload.global_batch,
        "per_device_parallelism": job.micro_sequences,
        "num_train_steps": 100,
        "mesh": {
            "axes": {"data": 1, "replica": 1, "model": 1} | {AXES[axis]: sizes[axis] for axis in order},
            "dcn_axes": {"replica_dcn": slices},
            "compute_mapping": compute,
            "param_mapping": {"embed": [AXES["fsdp"], AXES["context"]], "mlp": AXES["tensor"], "heads": AXES["tensor"]},
        },
    }
