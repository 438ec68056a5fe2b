"""The attention kernel of a device decides the time of a step, through the command."""

import json

import pytest

WIDE = "base: llama3-8b\nheads: 16\nkv_heads: 4\nhead_dim: 256\n"
"""As many features as llama3-8b in half as many heads."""


@pytest.fixture
def estimate(lcplan, tmp_path):
    """Estimate of a model, with the notes."""

    def _estimate(text, *options):
        if "\n" in text:
            (tmp_path / "wide.yaml").write_text(text)
            text = str(tmp_path / "wide.yaml")
        job = ("--seq", "128k", "--mesh", "context=8", "--global-batch", "1", "--scheme", "ring-zigzag")
        answer = lcplan("estimate", "--model", text, *job, *options, "--format", "json")
        assert answer.code == 0, answer.err
        return answer.json["candidate"]["estimate"], " ".join(answer.json["notes"])

    return _estimate


def test_heads_of_256_on_hopper_take_as_long_as_heads_of_128(estimate):
    wide, notes = estimate(WIDE, "--hw", "dgx-h100")
    plain, _ = estimate("llama3-8b", "--hw", "dgx-h100")
    assert 0.8 < wide["time_s"]["attention"] / plain["time_s"]["attention"] < 1.1
    assert "cuDNN" not in notes


@pytest.mark.parametrize("hardware", ["dgx-b200", "dgx-a100-80"])
def test_other_devices_have_no_backward_pass_for_them(estimate, hardware):
    wide, notes = estimate(WIDE, "--hw", hardware)
    plain, _ = estimate("llama3-8b", "--hw", hardware)
    assert wide["time_s"]["attention"] > 1.2 * plain["time_s"]["attention"]
    assert "multiples of 8 up to 128" in notes


def test_latent_attention_of_maxtext_on_tpu_has_its_splash_kernel(lcplan, tmp_path):
    """Keys of 192 and values of 128, which jax's splash kernel does not take."""
    keys = {"model_name": "deepseek3-671b", "max_target_length": 4096, "per_device_batch_size": 1, "ici_fsdp_parallelism": 256}
    keys |= {"dataset_type": "synthetic", "packing": False}
    times, notes = [], []
    for kernel in ("flash", "dot_product"):
        (tmp_path / "run.json").write_text(json.dumps(keys | {"attention": kernel}))
        answer = lcplan("estimate", "--from-maxtext", "run.json", "--hw", "v5p-512", "--format", "json").json
        times.append(answer["candidate"]["estimate"]["time_s"]["attention"])
        notes.append(any("splash attention takes" in note for note in answer["notes"]))
    assert times[0] < 0.5 * times[1]
    assert notes == [False, True]
