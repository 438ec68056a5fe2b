"""Files of AMD's Primus, which wrap a trainer's settings, through the front door."""

from __future__ import annotations

import json

import pytest
import yaml

from planner.cli.main import run


def primus(framework, **overrides):
    module = {"framework": framework, "config": "pre_trainer.yaml", "model": "llama3_8B.yaml", "overrides": overrides}
    return {"work_group": "${TEAM:amd}", "exp_name": "mine", "modules": {"pre_trainer": module}}


MEGATRON = primus(
    "megatron",
    micro_batch_size="${MBS:2}",
    global_batch_size="${GBS:128}",
    seq_length="${SEQ:8192}",
    max_position_embeddings=8192,
    tensor_model_parallel_size=1,
    pipeline_model_parallel_size=1,
    use_distributed_optimizer=True,
    use_torch_fsdp2=False,
    overlap_grad_reduce=True,
    save=None,
    recompute_granularity="full",
    recompute_method="uniform",
    recompute_num_layers=4,
    train_iters="${ITERS}",
)
MAXTEXT = primus(
    "maxtext",
    per_device_batch_size="${BATCH:5}",
    max_target_length=8192,
    remat_policy="full",
    ici_fsdp_parallelism=8,
    attention="cudnn_flash_te",
    packing="false",
)
PRESET = """extends:
  - base.yaml
hidden_size: 4096
ffn_hidden_size: 14336
num_layers: 32
num_attention_heads: 32
group_query_attention: true
num_query_groups: 8
"""
BASE = """swiglu: true
add_bias_linear: false
normalization: RMSNorm
untie_embeddings_and_output_weights: true
num_layers: 1
vocab_size: 128256
position_embedding_type: rope
"""


def answer(words, capsys):
    code = run(["estimate", *map(str, words), "--format", "json"])
    said = capsys.readouterr()
    return code, said.err if code else json.loads(said.out)


def written(folder, document, name="run.yaml"):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(document))
    return file


def test_megatrons_settings_are_read_with_the_defaults_of_variables(tmp_path, capsys):
    file = written(tmp_path, MEGATRON)
    code, found = answer(["--from-megatron", file, "--hw", "mi300x", "--devices", 8, "--model", "llama3-8b"], capsys)
    assert code == 0, found
    work, strategy = found["request"]["workload"], found["candidate"]["strategy"]
    assert (work["seq_len"], work["global_batch"]) == (8192, 128)
    assert (strategy["mesh"]["data"], strategy["microbatches"], strategy["remat"]) == (8, 8, "full")
    notes = " ".join(found["imported"]["notes"])
    assert "llama3_8B.yaml" in notes
    assert "train_iters: the variable ITERS sets it" in notes
    assert isinstance(found["candidate"]["best"]["fits"], bool)


def test_presets_of_the_checkout_that_the_file_is_in(tmp_path, capsys):
    models = tmp_path / "primus" / "configs" / "models" / "megatron"
    models.mkdir(parents=True)
    (models / "llama3_8B.yaml").write_text(PRESET)
    (models / "base.yaml").write_text(BASE)
    file = written(tmp_path, MEGATRON, "examples/megatron/configs/run.yaml")
    code, found = answer(["--from-megatron", file, "--hw", "mi300x", "--devices", 8], capsys)
    assert code == 0, found
    model = found["request"]["model"]
    assert (model["layers"], model["d_ff"], model["kv_heads"]) == (32, 14336, 8)


def test_maxtexts_settings_are_read(tmp_path, capsys):
    code, found = answer(["--from-maxtext", written(tmp_path, MAXTEXT), "--hw", "mi300x"], capsys)
    assert code == 0, found
    assert found["request"]["model"]["name"] == "llama3-8b"
    assert found["request"]["workload"]["global_batch"] == 40
    assert found["candidate"]["strategy"]["mesh"]["fsdp"] == 8


@pytest.mark.parametrize(("option", "document"), [("--from-megatron", MAXTEXT), ("--from-maxtext", MEGATRON)])
def test_a_file_of_the_other_framework_is_refused(option, document, tmp_path, capsys):
    code, said = answer([option, written(tmp_path, document), "--hw", "mi300x", "--devices", 8], capsys)
    assert code == 2
    assert "a Primus file of framework" in said
