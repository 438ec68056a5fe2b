"""Settings that are known to take more memory: an imported file's need must not fall, and its verdict must not get better."""

import json
from pathlib import Path

import pytest
import yaml

from planner.imports.advice import Advice

GPU = "--model llama3.1-8b --seq 8k --hw dgx-h100"
FSDP = {
    "distributed_type": "FSDP",
    "mixed_precision": "bf16",
    "num_processes": 8,
    "fsdp_config.fsdp_version": 2,
    "fsdp_config.fsdp_activation_checkpointing": True,
    "fsdp_config.fsdp_activation_checkpointing_offload": True,
    "fsdp_config.fsdp_reshard_after_forward": True,
    "fsdp_config.fsdp_offload_params": True,
    "parallelism_config.parallelism_config_dp_shard_size": 4,
    "parallelism_config.parallelism_config_cp_size": 2,
    "parallelism_config.parallelism_config_cp_comm_strategy": "alltoall",
}
FSDP1 = {
    "distributed_type": "FSDP",
    "mixed_precision": "bf16",
    "num_processes": 8,
    "fsdp_config.fsdp_version": 1,
    "fsdp_config.fsdp_sharding_strategy": "FULL_SHARD",
    "fsdp_config.fsdp_activation_checkpointing": True,
}
SPEED = {
    "distributed_type": "DEEPSPEED",
    "mixed_precision": "bf16",
    "num_processes": 8,
    "deepspeed_config.zero_stage": 3,
    "deepspeed_config.offload_optimizer_device": "cpu",
    "deepspeed_config.offload_param_device": "cpu",
}
ZERO = {
    "train_micro_batch_size_per_gpu": 1,
    "gradient_accumulation_steps": 1,
    "bf16.enabled": True,
    "zero_optimization.stage": 3,
    "zero_optimization.reduce_bucket_size": 50000000,
    "zero_optimization.offload_optimizer": {"device": "cpu"},
    "zero_optimization.offload_param": {"device": "cpu"},
    "sequence_parallel_size": 2,
}
HALVES = ZERO | {
    "bf16.bf16_master_weights_and_grads": True,
    "bf16.bf16_optimizer_states": True,
    "zero_optimization.offload_optimizer": {"device": "none"},
    "zero_optimization.offload_param": {"device": "none"},
}
MEGATRON = {
    "num-layers": "32",
    "hidden-size": "4096",
    "ffn-hidden-size": "14336",
    "num-attention-heads": "32",
    "group-query-attention": "",
    "num-query-groups": "8",
    "swiglu": "",
    "normalization": "RMSNorm",
    "position-embedding-type": "rope",
    "untie-embeddings-and-output-weights": "",
    "disable-bias-linear": "",
    "vocab-size": "128256",
    "tensor-model-parallel-size": "2",
    "sequence-parallel": "",
    "context-parallel-size": "2",
    "seq-length": "8192",
    "max-position-embeddings": "8192",
    "micro-batch-size": "1",
    "global-batch-size": "16",
    "bf16": "",
    "use-distributed-optimizer": "",
    "grad-reduce-in-bf16": "",
    "use-precision-aware-optimizer": "",
    "main-grads-dtype": "bf16",
    "exp-avg-dtype": "bf16",
    "exp-avg-sq-dtype": "bf16",
    "optimizer-cpu-offload": "",
    "recompute-granularity": "full",
    "recompute-method": "uniform",
    "recompute-num-layers": "1",
    "hidden-dropout": "0",
    "attention-dropout": "0",
    "no-create-attention-mask-in-dataloader": "",
    "attention-backend": "flash",
}
MAXTEXT = {
    "model_name": "llama3.1-8b",
    "hardware": "gpu",
    "ici_fsdp_parallelism": 4,
    "ici_context_parallelism": 2,
    "context_parallel_strategy": "ring",
    "max_target_length": 8192,
    "per_device_batch_size": 0.5,
    "num_vocab_tiling": 4,
    "remat_policy": "full",
    "attention": "cudnn_flash_te",
    "packing": False,
    "dataset_type": "synthetic",
    "weight_dtype": "bfloat16",
    "optimizer_memory_host_offload": True,
    "parameter_memory_host_offload": True,
}
TITAN = {
    "model.name": "llama3",
    "model.flavor": "8B",
    "training.local_batch_size": 1,
    "training.global_batch_size": 8,
    "training.seq_len": 8192,
    "training.dtype": "bfloat16",
    "training.enable_cpu_offload": True,
    "parallelism.data_parallel_shard_degree": 4,
    "parallelism.context_parallel_degree": 2,
    "activation_checkpoint.mode": "full",
}


@pytest.fixture(autouse=True)
def without_advice(monkeypatch):
    """The need is asked for; changes of the file are tested elsewhere."""
    monkeypatch.setattr("planner.imports.estimate._advice", lambda *_, **__: Advice(None, ()))


def nested(settings):
    found = {}
    for name, value in settings.items():
        section, dot, key = name.partition(".")
        (found.setdefault(section, {}) if dot else found)[key if dot else section] = value
    return found


def toml(settings):
    sections = nested(settings).items()
    return "\n".join(
        f"[{name}]\n" + "\n".join(f"{k} = {json.dumps(v)}" for k, v in values.items()) for name, values in sections
    )


FORMS = {
    "accelerate": ("a.yaml", lambda s: yaml.safe_dump(nested(s)), f"{GPU} --global-batch 8"),
    "deepspeed": ("a.json", lambda s: json.dumps(nested(s)), f"{GPU} --devices 8 --remat full --global-batch 4"),
    "megatron": ("a.args", lambda s: " ".join(f"--{key} {value}" for key, value in s.items()), "--hw dgx-h100 --devices 8"),
    "maxtext": ("a.yml", yaml.safe_dump, "--hw dgx-h100"),
    "torchtitan": ("a.toml", toml, "--hw dgx-h100"),
}
F, P, D, Z = "fsdp_config.fsdp_", "parallelism_config.parallelism_config_", "deepspeed_config.", "zero_optimization."
NO_SHARDS = {"distributed_type": "MULTI_GPU"} | {key: None for key in FSDP if "." in key}
GATHERED = {"use-torch-fsdp2": "", "torch-fsdp2-no-reshard-after-forward": ""}
GATHERED |= {"use-distributed-optimizer": None, "optimizer-cpu-offload": None}
WORSE = [
    ("deepspeed", ZERO, {"bf16.enabled": False}),
    ("accelerate", SPEED | {P + "sp_size": 2}, {P + "sp_attn_implementation": "eager"}),
    ("accelerate", FSDP, {F + "min_num_params": 1000000000}),
    ("torchtitan", TITAN, {"training.mixed_precision_param": "float32"}),
    ("megatron", MEGATRON, {"fsdp-double-buffer": ""}),
    ("accelerate", FSDP, {F + "activation_checkpointing": False}),
    ("accelerate", FSDP, {F + "activation_checkpointing_offload": False}),
    ("accelerate", FSDP, {F + "reshard_after_forward": False}),
    ("accelerate", FSDP, {F + "offload_params": False}),
    ("accelerate", FSDP, {P + "dp_shard_size": 2, P + "dp_replicate_size": 2}),
    ("accelerate", FSDP, NO_SHARDS),
    ("accelerate", FSDP1, {F + "sharding_strategy": "SHARD_GRAD_OP"}),
    ("accelerate", FSDP1, {F + "sharding_strategy": "NO_SHARD"}),
    ("accelerate", FSDP1, {F + "activation_checkpointing": False}),
    ("accelerate", FSDP1, {"mixed_precision": "no"}),
    ("accelerate", SPEED, {D + "zero_stage": 2}),
    ("accelerate", SPEED, {D + "zero_stage": 1, D + "offload_param_device": "none"}),
    ("accelerate", SPEED, {D + "zero_stage": 0}),
    ("accelerate", SPEED, {D + "offload_optimizer_device": "none"}),
    ("accelerate", SPEED, {D + "offload_param_device": "none"}),
    ("deepspeed", ZERO, {Z + "stage": 2, Z + "offload_param": {"device": "none"}}),
    ("deepspeed", ZERO, {Z + "stage": 1, Z + "offload_param": {"device": "none"}}),
    ("deepspeed", ZERO, {Z + "stage": 0, Z + "offload_param": {"device": "none"}}),
    ("deepspeed", ZERO, {Z + "offload_optimizer": {"device": "none"}}),
    ("deepspeed", ZERO, {Z + "offload_optimizer": {"device": "cpu", "ratio": 0.5}}),
    ("deepspeed", ZERO, {Z + "offload_param": {"device": "none"}}),
    ("deepspeed", ZERO, {Z + "reduce_bucket_size": 2000000000}),
    ("deepspeed", ZERO, {Z + "zero_hpz_partition_size": 8}),
    ("deepspeed", ZERO, {"sequence_parallel_size": 1, "--global-batch": 8}),
    ("deepspeed", HALVES, {"bf16.bf16_optimizer_states": False}),
    ("deepspeed", HALVES, {"bf16.bf16_master_weights_and_grads": False, "bf16.bf16_optimizer_states": False}),
    ("megatron", MEGATRON, {"recompute-granularity": None, "recompute-method": None, "recompute-num-layers": None}),
    ("megatron", MEGATRON, {"recompute-method": "block"}),
    ("megatron", MEGATRON, {"recompute-num-layers": "16"}),
    ("megatron", MEGATRON, {"attention-backend": "unfused"}),
    ("megatron", MEGATRON, {"sequence-parallel": None}),
    ("megatron", MEGATRON, {"use-distributed-optimizer": None}),
    ("megatron", MEGATRON, {"grad-reduce-in-bf16": None, "main-grads-dtype": "fp32"}),
    ("megatron", MEGATRON, {"exp-avg-dtype": "fp32"}),
    ("megatron", MEGATRON, {"optimizer-cpu-offload": None}),
    ("megatron", MEGATRON, {"optimizer-offload-fraction": "0.25"}),
    ("megatron", MEGATRON, {"no-create-attention-mask-in-dataloader": None}),
    ("megatron", MEGATRON, {"micro-batch-size": "2"}),
    ("megatron", MEGATRON, {"context-parallel-size": "1"}),
    ("megatron", MEGATRON, {"mtp-num-layers": "1"}),
    ("megatron", MEGATRON, {"fp32-residual-connection": ""}),
    ("megatron", MEGATRON, GATHERED),
    ("maxtext", MAXTEXT, {"remat_policy": "minimal"}),
    ("maxtext", MAXTEXT | {"per_device_batch_size": 4.0}, {"num_vocab_tiling": 1}),
    ("maxtext", MAXTEXT, {"per_device_batch_size": 1.0}),
    ("maxtext", MAXTEXT, {"ici_context_parallelism": 1, "ici_fsdp_parallelism": 8, "per_device_batch_size": 1.0}),
    ("maxtext", MAXTEXT, {"ici_fsdp_parallelism": 2, "ici_data_parallelism": 2}),
    ("maxtext", MAXTEXT, {"attention": "dot_product"}),
    ("maxtext", MAXTEXT, {"weight_dtype": "float32"}),
    ("maxtext", MAXTEXT, {"optimizer_memory_host_offload": False}),
    ("maxtext", MAXTEXT, {"parameter_memory_host_offload": False}),
    ("maxtext", MAXTEXT, {"dtype": "float32"}),
    ("maxtext", MAXTEXT, {"scan_layers": False}),
    ("maxtext", MAXTEXT, {"mtp_num_layers": 1}),
    ("torchtitan", TITAN, {"activation_checkpoint.mode": "selective"}),
    ("torchtitan", TITAN, {"activation_checkpoint.mode": "none"}),
    ("torchtitan", TITAN | {"training.enable_cpu_offload": False}, {"training.dtype": "float32"}),
    ("torchtitan", TITAN, {"training.enable_cpu_offload": False}),
    ("torchtitan", TITAN, {"training.local_batch_size": 2}),
    ("torchtitan", TITAN, {"parallelism.fsdp_reshard_after_forward": "never"}),
    ("torchtitan", TITAN, {"parallelism.data_parallel_shard_degree": 2, "parallelism.data_parallel_replicate_degree": 2}),
]  # fmt: skip


def need(lcplan, trainer, settings):
    """Memory of a file with its allowance, and whether it runs: it fits, and the trainer doesn't refuse it."""
    name, write, words = FORMS[trainer]
    options = {key: value for key, value in settings.items() if key.startswith("--") and value is not None}
    settings = {key: value for key, value in settings.items() if value is not None and key not in options}
    Path(name).write_text(write(settings))
    words = words.split()
    for option, value in options.items():
        words[words.index(option) + 1] = str(value)
    answer = lcplan("estimate", f"--from-{trainer}", name, *words, "--format", "json")
    assert answer.code == 0, answer.err
    found = answer.json["imported"]
    return found["memory_bytes"] + found["allowance_bytes"], found["fits"] and not found["refusals"]


@pytest.mark.parametrize(
    ("trainer", "settings", "worse"), WORSE, ids=[f"{t}-{next(iter(w))}-{n}" for n, (t, _, w) in enumerate(WORSE)]
)
def test_a_setting_that_takes_more_never_needs_less(lcplan, trainer, settings, worse):
    before, _ = need(lcplan, trainer, settings)
    after, fits = need(lcplan, trainer, settings | worse)
    assert after > before or not fits, f"{before / 2**30:.1f} -> {after / 2**30:.1f} GiB, and it fits"
