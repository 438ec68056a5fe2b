"""Published MaxText steps at long context on TPU, through ``lcplan estimate --from-maxtext``.

Source: github AI-Hypercomputer/tpu-recipes, training/v5p/Llama3.1-8B-LongContext-Maxtext and training/ironwood (2026).
"""

import json

import pytest

from planner.cli.main import run

COMMON = "attention=flash use_tokamax_splash=true use_jax_splash=false dataset_type=synthetic packing=false num_vocab_tiling=16"
STOCK = "model_name=llama3.1-8b remat_policy=custom context_parallel_strategy=ring"
WIDE = f"{STOCK} override_model_config=true head_dim=256 base_num_query_heads=16 base_num_kv_heads=4"
LLAMA_70B = (
    "model_name=llama3.1-70b remat_policy=custom decoder_layer_input=device context=device query_proj=device "
    "key_proj=device value_proj=device mlpwo=device"
)
MEASURED = [
    (f"{STOCK} context=offload", 1048576, 0.03125, (64, 1), "v5p-128", 111.05),
    (f"{WIDE} context=device decoder_layer_input=device", 65536, 0.5, (4, 16), "v5p-128", 10.25),
    (f"{WIDE} context=offload", 1048576, 0.03125, (64, 1), "v5p-128", 95.73),
    (f"{WIDE} context=offload decoder_layer_input=offload", 4194304, 0.03125, (64, 1), "v5p-128", 1373.73),
    (f"{WIDE} context=device decoder_layer_input=device", 1048576, 0.03125, (32, 4), "tpu7x-4x4x4", 49.58),
    (LLAMA_70B, 131072, 0.125, (8, 64), "tpu7x-4x8x8", 34.02),
]


@pytest.mark.parametrize("row", MEASURED)
def test_a_published_step_at_long_context(tmp_path, capsys, row):
    keys, seq_len, batch, (context, fsdp), machine, seconds = row
    file = tmp_path / "run.cmd"
    mesh = f"ici_context_parallelism={context} ici_fsdp_parallelism={fsdp}"
    sizes = f"max_target_length={seq_len} per_device_batch_size={batch}"
    file.write_text(f"python3 -m maxtext.trainers.pre_train.train base.yml {keys} {sizes} {mesh} {COMMON}")
    assert run(["estimate", "--from-maxtext", str(file), "--hw", machine, "--format", "json"]) == 0
    estimate = json.loads(capsys.readouterr().out)["candidate"]["estimate"]
    assert estimate["step_s"] == pytest.approx(seconds, rel=0.08)


def test_a_file_without_tokamax_has_two_backward_kernels(tmp_path, capsys):
    steps = []
    for kernel in ("true", "false"):
        file = tmp_path / f"{kernel}.cmd"
        keys = "model_name=llama3.1-8b attention=flash packing=false max_target_length=131072 per_device_batch_size=0.125"
        mesh = "ici_context_parallelism=8 ici_fsdp_parallelism=8"
        file.write_text(f"python3 -m MaxText.train base.yml {keys} {mesh} use_tokamax_splash={kernel}")
        assert run(["estimate", "--from-maxtext", str(file), "--hw", "v5p-128", "--format", "json"]) == 0
        steps.append(json.loads(capsys.readouterr().out)["candidate"]["estimate"]["time_s"]["attention"])
    assert 1.2 < steps[1] / steps[0] < 1.35  # (1 / 306 + 2.5 / 243) / (1 / 306 + 2.5 / 340), and merges of chunks
