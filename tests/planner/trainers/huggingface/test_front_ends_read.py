"""Files of LLaMA-Factory, Axolotl and TRL, read as runs of Accelerate or DeepSpeed."""

import json
from importlib import import_module

import pytest
import yaml

from lcplan.catalog.hub_names import hub_model
from lcplan.formats.errors import BadInputError

ZERO3 = {"zero_optimization": {"stage": 3}, "bf16": {"enabled": "auto"}, "train_batch_size": "auto"}
LLAMAFACTORY = {
    "model_name_or_path": "Qwen/Qwen3-8B",
    "stage": "sft",
    "finetuning_type": "full",
    "deepspeed": "examples/deepspeed/ds_z3_config.json",
    "cutoff_len": 8192,
    "per_device_train_batch_size": 1,
    "gradient_accumulation_steps": 2,
    "bf16": True,
    "packing": True,
}
AXOLOTL = {
    "base_model": "meta-llama/Llama-3.1-8B",
    "sequence_len": 8192,
    "micro_batch_size": 1,
    "gradient_accumulation_steps": 4,
    "gradient_checkpointing": True,
    "sample_packing": True,
    "bf16": "auto",
    "optimizer": "adamw_torch_fused",
    "fsdp_version": 2,
    "fsdp_config": {"reshard_after_forward": True, "auto_wrap_policy": "TRANSFORMER_BASED_WRAP"},
}
TRL = {
    "model_name_or_path": "Qwen/Qwen2.5-7B",
    "max_length": 16384,
    "per_device_train_batch_size": 1,
    "packing": True,
    "accelerate_config": "zero3",
}


@pytest.fixture
def says(tmp_path):
    def _says(name, base, devices=8, **changes):
        (tmp_path / "ds_z3_config.json").write_text(json.dumps(ZERO3))
        file = tmp_path / "run.yaml"
        file.write_text(yaml.safe_dump({key: value for key, value in (base | changes).items() if value is not None}))
        return import_module(f"planner.trainers.{name}.read").read(str(file), devices)

    return _says


def test_llamafactory_is_deepspeed_with_its_own_words(says):
    imported = says("llamafactory", LLAMAFACTORY)
    options = imported.options
    assert (imported.trainer, imported.through[:13]) == ("deepspeed", "LLaMA-Factory")
    assert (options["model"].name, options["seq"], options["remat"]) == ("qwen3-8b", 8192, ("full",))
    assert (options["global_batch"], options["microbatches"]) == (16, (2,))
    assert options["mesh"] == "data=1,fsdp=8,context=1,tensor=1"
    assert (imported.unknown, imported.unpriced) == ((), ())


def test_axolotl_is_fsdp_with_its_own_words(says):
    imported = says("axolotl", AXOLOTL)
    options = imported.options
    assert (imported.trainer, options["model"].name, options["global_batch"]) == ("accelerate", "llama3.1-8b", 32)
    assert options["mesh"] == "data=1,fsdp=8,context=1,tensor=1"
    assert imported.unpriced == ()


@pytest.mark.parametrize(
    ("changes", "mesh", "scheme"),
    [
        ({"context_parallel_size": 4}, "data=1,fsdp=2,context=4,tensor=1", "all-gather"),
        ({"context_parallel_size": 4, "ring_attn_func": "batch_zigzag"}, "data=1,fsdp=2,context=4,tensor=1", "ring-zigzag"),
        ({"sequence_parallel_degree": 2, "sample_packing": False}, "data=1,fsdp=4,context=2,tensor=1", "ring"),
        ({"tensor_parallel_size": 2, "dp_shard_size": 2, "dp_replicate_size": 2}, "data=2,fsdp=2,context=1,tensor=2", None),
        ({"fsdp_config": None, "fsdp_version": None}, "data=8,fsdp=1,context=1,tensor=1", None),
        ({"fsdp_config": None, "deepspeed": "x/ds_z3_config.json"}, "data=1,fsdp=8,context=1,tensor=1", None),
    ],
)
def test_ranks_of_axolotl(says, changes, mesh, scheme):
    options = says("axolotl", AXOLOTL, **changes).options
    assert options["mesh"] == mesh
    assert options.get("scheme") == (None if scheme is None else (scheme,))


@pytest.mark.parametrize(
    ("changes", "remat"),
    [
        ({"gradient_checkpointing": False}, "save-all"),
        ({"gradient_checkpointing": "offload"}, "offload-layer-in"),
        ({"activation_offloading": True}, "offload-layer-in"),
    ],
)
def test_checkpointing_of_axolotl(says, changes, remat):
    assert says("axolotl", AXOLOTL, **changes).options["remat"] == (remat,)


def test_trl_brings_its_launchers_files(says):
    imported = says("trl", TRL)
    assert imported.options["mesh"] == "data=1,fsdp=8,context=1,tensor=1"
    assert says("trl", TRL, accelerate_config="multi_gpu").options["mesh"] == "data=8,fsdp=1,context=1,tensor=1"
    with pytest.raises(BadInputError, match="did you mean 'zero3'"):
        says("trl", TRL, accelerate_config="zeros3")


@pytest.mark.parametrize(
    ("name", "base", "changes", "words"),
    [
        ("llamafactory", LLAMAFACTORY, {"finetuning_type": "lora"}, "finetuning_type lora"),
        ("llamafactory", LLAMAFACTORY, {"finetuning_type": None}, "finetuning_type lora"),
        ("llamafactory", LLAMAFACTORY, {"stage": "dpo"}, "stage dpo"),
        ("llamafactory", LLAMAFACTORY, {"quantization_bit": 4}, "quantization_bit 4"),
        ("axolotl", AXOLOTL, {"adapter": "qlora", "load_in_4bit": True}, "adapter qlora"),
        ("axolotl", AXOLOTL, {"rl": "dpo"}, "rl dpo"),
        ("trl", TRL, {"use_peft": True}, "use_peft"),
        ("trl", TRL, {"num_generations": 8}, "num_generations"),
    ],
)
def test_what_has_no_price_is_named(says, name, base, changes, words):
    assert any(words in reason for reason in says(name, base, **changes).unpriced)


@pytest.mark.parametrize(
    ("name", "base", "changes"),
    [
        ("llamafactory", LLAMAFACTORY, {"enable_liger_kernel": True}),
        ("axolotl", AXOLOTL, {"cut_cross_entropy": True}),
        ("trl", TRL, {"use_liger_kernel": True}),
    ],
)
def test_a_fused_loss_is_in_chunks(says, name, base, changes):
    assert "loss_chunk_tokens" not in says(name, base).options
    assert says(name, base, **changes).options["loss_chunk_tokens"] == (1024,)


def test_a_script_is_read_with_the_files_that_it_names(tmp_path):
    (tmp_path / "fsdp.yaml").write_text("distributed_type: FSDP\nnum_processes: 16\nfsdp_config: {fsdp_version: 2}\n")
    file = tmp_path / "run.sh"
    file.write_text(
        "export WANDB=1\nLEN=$((32 * 1024))\naccelerate launch --config_file fsdp.yaml --num_processes 16 sft.py \\\n"
        "  --model_name_or_path Qwen/Qwen3-4B --max_length $LEN --per_device_train_batch_size 1 --packing \\\n"
        "  --output_dir $OUT\n"
    )
    imported = import_module("planner.trainers.trl.read").read(str(file))
    options = imported.options
    assert (options["model"].name, options["seq"], options["devices"]) == ("qwen3-4b", 32768, 16)
    assert options["mesh"] == "data=1,fsdp=16,context=1,tensor=1"
    file.write_text(file.read_text().replace("LEN=$((32 * 1024))\n", ""))
    with pytest.raises(BadInputError, match=r"--max_length \$LEN: \$LEN in line 3 \(not set in this file\)"):
        import_module("planner.trainers.trl.read").read(str(file))


def test_words_of_a_command_win_over_its_yaml(tmp_path):
    (tmp_path / "ds_z3_config.json").write_text(json.dumps(ZERO3))
    (tmp_path / "sft.yaml").write_text(yaml.safe_dump(LLAMAFACTORY))
    file = tmp_path / "run.sh"
    file.write_text("FORCE_TORCHRUN=1 NNODES=2 NPROC_PER_NODE=8 llamafactory-cli train configs/sft.yaml cutoff_len=65536\n")
    options = import_module("planner.trainers.llamafactory.read").read(str(file)).options
    assert (options["seq"], options["devices"]) == (65536, 16)


@pytest.mark.parametrize(
    ("name", "base", "changes", "message"),
    [
        ("llamafactory", LLAMAFACTORY, {"deepspeed": "z9.json"}, "deepspeed: z9.json is not there"),
        ("llamafactory", LLAMAFACTORY, {"cutoff_len": "long"}, "cutoff_len: 'long' is not a whole number"),
        ("axolotl", AXOLOTL, {"context_parallel_size": 3}, "context x tensor = 3 ranks do not divide 8 devices"),
        ("axolotl", AXOLOTL, {"context_parallel_size": 2, "ring_attn_func": "ring"}, "ring_attn_func 'ring'"),
    ],
)
def test_what_does_not_hold_is_refused(says, name, base, changes, message):
    with pytest.raises(BadInputError, match=message):
        says(name, base, **changes)


@pytest.mark.parametrize("name", ["llamafactory", "axolotl", "trl"])
def test_another_programs_file_is_refused(name, tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("replicas: 3\n")
    with pytest.raises(BadInputError, match="not a configuration of"):
        import_module(f"planner.trainers.{name}.read").read(str(file), 8)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("meta-llama/Meta-Llama-3-8B-Instruct", "llama3-8b"),
        ("NousResearch/Llama-2-7b-chat-hf", "llama2-7b"),
        ("Qwen/Qwen2-7B", "qwen2.5-7b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"),
        ("google/gemma-2-9b-it", "gemma-2-9b"),
        ("someone/private-8b", None),
    ],
)
def test_models_are_known_by_their_names_on_the_hub(name, model):
    found = hub_model(name)
    assert (found.name if found else None) == model
