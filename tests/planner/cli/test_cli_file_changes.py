"""Changes of an imported file: each is written into the file, imported again, and must fit as the advice says."""

import json
from pathlib import Path

import pytest
import yaml

FSDP = {
    "distributed_type": "FSDP",
    "mixed_precision": "bf16",
    "num_machines": 1,
    "num_processes": 8,
    "fsdp_config": {"fsdp_version": 2, "fsdp_activation_checkpointing": True, "fsdp_reshard_after_forward": True},
}
RING = FSDP | {
    "parallelism_config": {"parallelism_config_cp_size": 8, "parallelism_config_cp_comm_strategy": "alltoall"},
}
ULYSSES = {
    "distributed_type": "DEEPSPEED",
    "mixed_precision": "bf16",
    "num_machines": 1,
    "num_processes": 4,
    "deepspeed_config": {"zero_stage": 3},
    "parallelism_config": {"parallelism_config_dp_shard_size": 2, "parallelism_config_sp_size": 2},
}
ZERO = {
    "train_micro_batch_size_per_gpu": 1,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}},
}
MEGATRON = (
    "--num-layers 64 --hidden-size 5120 --ffn-hidden-size 25600 --num-attention-heads 64 --kv-channels 128 "
    "--group-query-attention --num-query-groups 8 --swiglu --normalization RMSNorm --position-embedding-type rope "
    "--untie-embeddings-and-output-weights --disable-bias-linear --vocab-size 151936 --tensor-model-parallel-size 8 "
    "--sequence-parallel --seq-length 32768 --max-position-embeddings 32768 --micro-batch-size 1 --global-batch-size 8 --bf16 "
    "--use-distributed-optimizer --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 "
    "--no-create-attention-mask-in-dataloader --attention-backend unfused"
)
MAXTEXT = {
    "model_name": "llama3.1-70b",
    "hardware": "gpu",
    "ici_fsdp_parallelism": 8,
    "max_target_length": 8192,
    "per_device_batch_size": 2,
    "remat_policy": "full",
    "attention": "cudnn_flash_te",
    "packing": False,
    "dataset_type": "synthetic",
}
TITAN = {
    "model": {"name": "llama3", "flavor": "70B"},
    "training": {"local_batch_size": 1, "seq_len": 8192},
    "parallelism": {"data_parallel_shard_degree": 16},
    "activation_checkpoint": {"mode": "full"},
}


def nested(settings):
    """Settings with the section before a dot, as sections."""
    found = {}
    for name, value in settings.items():
        section, dot, key = name.partition(".")
        (found.setdefault(section, {}) if dot else found)[key if dot else section] = value
    return found


def merged(data, settings):
    """The file's data with the settings changed; None takes a setting away."""
    out = {key: dict(value) if isinstance(value, dict) else value for key, value in data.items()}
    for name, value in nested(settings).items():
        if (
            isinstance(value, dict)
            and isinstance(out.get(name, {}), dict)
            and any(f"{name}.{key}" in settings for key in value)
        ):
            out[name] = {key: one for key, one in (out.get(name, {}) | value).items() if one is not None}
        else:
            out[name] = value
    return {key: value for key, value in out.items() if value is not None}


def yaml_text(data, settings):
    return yaml.safe_dump(merged(data, settings))


def json_text(data, settings):
    return json.dumps(merged(data, settings))


def toml_text(data, settings):
    settings = dict(settings)
    policy = settings.pop("activation_checkpoint", None)
    settings |= {"activation_checkpoint.mode": {"full": "full", "save-all": "none"}[policy]} if policy else {}
    lines = []
    for section, values in merged(data, settings).items():
        lines += [f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    return "\n".join(lines)


def args_text(data, settings):
    words = data.split("--")[1:]
    own = {word.split()[0]: word.split()[1:] for word in words}
    own = {key: value for key, value in (own | settings).items() if value is not None}
    return " ".join(f"--{key} {' '.join(values)}" for key, values in own.items())


LLAMA = "--model llama3.1-8b --seq 32k --global-batch 2 --hw dgx-h100 --remat full"
TINY = "--model qwen3-0.6b --seq 512k --hw dgx-a100-80 --devices 8 --global-batch 8 --remat full --loss-chunk-tokens 1024"
CASES = {
    "fsdp-ring": ("accelerate", "a.yaml", yaml_text, RING, "--model qwen3-8b --seq 1m --global-batch 1 --hw dgx-h100"),
    "fsdp": ("accelerate", "a.yaml", yaml_text, FSDP, "--model qwen3-32b --seq 32k --global-batch 8 --hw dgx-h100"),
    "sp": ("accelerate", "a.yaml", yaml_text, ULYSSES, LLAMA),
    "zero": ("deepspeed", "a.json", json_text, ZERO, TINY),
    "unfused": ("megatron", "a.args", args_text, MEGATRON, "--devices 64 --hw dgx-h100x8"),
    "maxtext": ("maxtext", "a.yml", yaml_text, MAXTEXT, "--hw dgx-h100"),
    "titan": ("torchtitan", "a.toml", toml_text, TITAN, "--hw dgx-h100x2"),
}  # fmt: skip


def asked(lcplan, case, text, options=()):
    trainer, name, _, _, given = CASES[case]
    Path(name).write_text(text)
    words = given.split()
    for option, value in options:
        flag = f"--{option.replace('_', '-')}"
        if flag in words:
            del words[words.index(flag) : words.index(flag) + 2]
        words += [flag, str(value)]
    answer = lcplan("estimate", f"--from-{trainer}", name, *words, "--format", "json")
    assert answer.code == 0, answer.err
    return answer.json


@pytest.mark.parametrize("case", CASES)
def test_each_change_fits_when_its_file_is_imported(lcplan, case):
    _, _, write, data, _ = CASES[case]
    first = asked(lcplan, case, write(data, {}))
    assert not first["imported"]["fits"]
    advice = first["imported"]["would_change"]
    changes = [*advice["single"], advice["best"]]
    assert advice["best"] is not None
    budget = first["request"]["budget_bytes"]
    for change in changes:
        again = asked(lcplan, case, write(data, change["settings"]), change["options"].items())["imported"]
        assert again["fits"], change["change"]
        assert again["refusals"] == []
        assert again["memory_bytes"] + again["allowance_bytes"] == change["need_bytes"] <= budget
    assert advice["best"]["candidate"]["estimate"]["step_s"] == min(one["candidate"]["estimate"]["step_s"] for one in changes)


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ("fsdp-ring", "fsdp_activation_checkpointing_offload: true"),
        ("sp", "parallelism_config_sp_size: 4 (now 2)"),
        ("zero", '"sequence_parallel_size": 8'),
        ("unfused", "--attention-backend flash (now unfused)"),
        ("maxtext", "optimizer_memory_host_offload: true"),
        ("titan", "training.enable_cpu_offload = true"),
    ],
)
def test_a_single_change_is_named_in_the_files_own_words(lcplan, case, says):
    _, _, write, data, _ = CASES[case]
    advice = asked(lcplan, case, write(data, {}))["imported"]["would_change"]
    changes = [" ".join(change["change"]) for change in (*advice["single"], advice["best"])]
    assert any(says in change for change in changes), changes


def test_the_largest_part_and_its_cure_are_named(lcplan):
    """huggingface/trl#6846: the logits of a million tokens are most of the memory, and a loss in chunks makes them fit."""
    ring = RING | {"fsdp_config": RING["fsdp_config"] | {"fsdp_activation_checkpointing_offload": True}}
    Path("a.yaml").write_text(yaml.safe_dump(ring))
    run = ("estimate", "--from-accelerate", "a.yaml", "--model", "qwen3-8b", "--seq", "1m", "--global-batch", "1")
    answer = lcplan(*run, "--hw", "dgx-h100")
    text = " ".join(answer.out.split())
    assert "most of it: logits and loss, 259.7 GiB (93%)" in text
    assert "a loss in chunks (TRL's chunked loss, or Liger's fused linear cross entropy) (--loss-chunk-tokens 1024)" in text


def test_a_file_that_the_trainer_refuses_gets_a_change_that_runs(lcplan):
    """NVIDIA/TransformerEngine#2541: a learnable softmax has no ring."""
    text = MEGATRON.replace("unfused", "flash").replace("-parallel-size 8", "-parallel-size 4", 1)
    Path("a.args").write_text(f"{text} --context-parallel-size 2 --cp-comm-type p2p --softmax-type learnable")
    run = ("estimate", "--from-megatron", "a.args", "--devices", "64", "--hw", "dgx-h100x8", "--format", "json")
    opinion = lcplan(*run).json["imported"]
    assert opinion["refusals"]
    advice = opinion["would_change"]
    assert {"cp-comm-type": ["a2a"]} in [one["settings"] for one in (*advice["single"], advice["best"])]
