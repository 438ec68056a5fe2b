"""Accelerate: the YAML of ``accelerate launch``, and in its header the settings that only the training script can make."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import yaml

from lcplan.evidence.plan import Plan
from planner.trainers import Job, Translation
from planner.trainers.accelerate.facts import FILE, ROTATION
from planner.trainers.common.export_files import Launch, Written, title

LAYER_CLASSES = MappingProxyType(
    {"llama": "LlamaDecoderLayer", "mistral": "MistralDecoderLayer", "qwen2": "Qwen2DecoderLayer", "qwen3": "Qwen3DecoderLayer"}
)


def export(translation: Translation, _: Plan) -> Written:
    """The YAML and its launch line."""
    job = translation.job
    head = [f"# {title(translation)}", *(f"# {line}" for line in script_notes(job))]
    text = "\n".join(head) + "\n" + yaml.safe_dump(_settings(job), sort_keys=False, width=120)
    hosts = ("--machine_rank", "${NODE_RANK:-0}", "--main_process_ip", "${HEAD_NODE:-127.0.0.1}")
    steps = ("--gradient_accumulation_steps", str(job.strategy.microbatches), '"${SCRIPT:-train.py}"')
    note = "Set SCRIPT to your training script, NODE_RANK and HEAD_NODE on each host."
    return Written({FILE: text}, Launch(("accelerate", "launch", "--config_file", FILE, *hosts, *steps), notes=(note,)))


def script_notes(job: Job) -> list[str]:
    """Steps that the user's training script must take to run the plan."""
    notes = [
        f"In your script: sequences of {job.workload.seq_len} tokens, {job.micro_sequences} a data-parallel rank and pass,",
        f"{job.strategy.microbatches} accumulation steps, fp32 parameters, attn_implementation sdpa.",
    ]
    if job.strategy.mesh.tensor > 1:
        notes.append("Load the model with tp_plan='auto' and the device mesh of the ParallelismConfig.")
    if job.strategy.mesh.context > 1:
        notes.append(
            "Wrap forward and backward in accelerator.maybe_context_parallel(buffers=..) with input ids, labels and positions."
        )
    return notes


def _settings(job: Job) -> dict[str, Any]:
    mesh, node = job.strategy.mesh, job.hardware.node_size
    parallel: dict[str, Any] = {
        "parallelism_config_dp_replicate_size": mesh.data,
        "parallelism_config_dp_shard_size": mesh.fsdp,
        "parallelism_config_tp_size": mesh.tensor,
        "parallelism_config_cp_size": mesh.context,
    }
    if mesh.context > 1:
        parallel["parallelism_config_cp_backend"] = "torch"
        parallel["parallelism_config_cp_comm_strategy"] = ROTATION[job.strategy.scheme]
    return {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "FSDP",
        "mixed_precision": "bf16",
        "num_machines": -(-job.strategy.devices // min(node, job.strategy.devices)),
        "num_processes": job.strategy.devices,
        "main_process_port": 29500,
        "rdzv_backend": "static",
        "same_network": True,
        "main_training_function": "main",
        "fsdp_config": {
            "fsdp_version": 2,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_transformer_layer_cls_to_wrap": LAYER_CLASSES[job.model.family],
            "fsdp_reshard_after_forward": True,
            "fsdp_activation_checkpointing": job.strategy.remat == "full",
            "fsdp_cpu_ram_efficient_loading": True,
            "fsdp_offload_params": False,
            "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        },
        "parallelism_config": parallel,
    }
