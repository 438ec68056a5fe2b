"""One verdict per answer: best.fits is that of the file as its trainer runs it, host memory included."""

import json

import pytest

BF16 = {
    "model_name": "llama3-70b",
    "hardware": "gpu",
    "ici_fsdp_parallelism": 8,
    "remat_policy": "full",
    "max_target_length": 8192,
    "per_device_batch_size": 7,
    "attention": "cudnn_flash_te",
    "packing": False,
    "weight_dtype": "bfloat16",
    "dataset_type": "synthetic",
}
OFFLOAD = {
    "train_micro_batch_size_per_gpu": 1,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}},
}
EIGHT = ("--seq", "4k", "--global-batch", "8", "--hw", "dgx-h100", "--devices", "8", "--remat", "full")
WIDE = "base: dgx-h100\nname: eight\ndevice: {hbm_bytes: 192GB}\n"


def verdicts(found):
    """Every ``fits`` of a document but those of proposed changes."""
    if isinstance(found, dict):
        for key, value in found.items():
            if key == "fits" and value is not None:
                yield value
            elif key != "would_change":
                yield from verdicts(value)
    elif isinstance(found, list):
        for one in found:
            yield from verdicts(one)


CASES = [
    ("maxtext", BF16, ("--hw", "eight.yaml"), True),
    ("deepspeed", OFFLOAD, (*EIGHT, "--model", "llama3.1-405b"), False),
    ("deepspeed", OFFLOAD | {"zero_optimization": {"stage": 2}}, (*EIGHT, "--model", "qwen3-30b-a3b"), False),
]


@pytest.fixture
def answered(lcplan, tmp_path):
    """The document and the text of an imported file."""

    def _answered(trainer, file, options):
        (tmp_path / "eight.yaml").write_text(WIDE)
        (tmp_path / "run.json").write_text(json.dumps(file))
        words = ("estimate", f"--from-{trainer}", "run.json", *options)
        return lcplan(*words, "--format", "json").json, lcplan(*words).out

    return _answered


@pytest.mark.parametrize(("trainer", "file", "options", "fits"), CASES, ids=["bf16 state", "host", "whole weights"])
def test_one_verdict(answered, trainer, file, options, fits):
    document, text = answered(trainer, file, options)
    assert set(verdicts(document)) == {fits}
    assert document["candidate"]["best"]["fits"] is fits
    memory, own = document["candidate"]["estimate"]["memory_bytes"], document["imported"]
    assert document["candidate"]["best"]["memory_bytes"] == memory["total"] == own["memory_bytes"]
    assert memory["total"] == pytest.approx(sum(value for key, value in memory.items() if key != "total"), abs=1)
    stated = [line for line in " ".join(text.split("\n")).split(".") if "does not fit" in line]
    assert bool(stated) is not fits
    assert (": fits" in text) is fits


def test_the_bf16_state_is_a_part(answered):
    """6 bytes of 70.6e9 parameters leave each of 8 devices: moments in bf16, weights and gradients in bf16."""
    document, text = answered("maxtext", BF16, ("--hw", "eight.yaml"))
    assert document["candidate"]["estimate"]["memory_bytes"]["trainer"] == pytest.approx(-8 * 70.55e9 / 8, rel=2e-3)
    assert "differences of the trainer" in text


def test_a_file_without_differences_has_no_such_part(answered):
    document, _ = answered("deepspeed", OFFLOAD | {"zero_optimization": {"stage": 3}}, (*EIGHT, "--model", "llama3-8b"))
    assert "trainer" not in document["candidate"]["estimate"]["memory_bytes"]


def test_a_part_without_a_price_leaves_no_verdict(answered):
    document, text = answered("maxtext", BF16 | {"use_multimodal": True}, ("--hw", "eight.yaml"))
    assert set(verdicts(document)) == {False}
    assert ": fits" not in text
    assert text.replace("\n", " ").count("no verdict, since not all of it is priced") == 2


def test_multi_token_prediction_through_the_command(lcplan, tmp_path):
    words = "model_name=llama3.1-8b max_target_length=32768 per_device_batch_size=1 ici_fsdp_parallelism=32 remat_policy=full"
    words += " attention=flash dataset_type=synthetic packing=false mtp_num_layers={}"
    needs = []
    for depth in (0, 1):
        (tmp_path / "a.cmd").write_text(f"python3 -m maxtext.trainers.pre_train.train base.yml {words.format(depth)}\n")
        answer = lcplan("estimate", "--from-maxtext", "a.cmd", "--hw", "v5p-64", "--format", "json").json
        needs.append(answer["candidate"]["best"]["memory_bytes"])
    assert needs[1] - needs[0] > 2.7 * 32768 * 128256  # a second set of logits, and more


def test_several_ways_to_compile_a_file_have_its_verdict(answered):
    document, text = answered("maxtext", BF16, ("--hw", "eight.yaml", "--sharding-mode", "auto,manual"))
    assert [one["best"]["fits"] for one in document["candidates"]] == [True, True]
    assert set(verdicts(document)) == {True}
    assert "does not fit" not in " ".join(text.split())
