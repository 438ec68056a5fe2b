"""Hardware of other makers and of a user's own file, through the commands."""

from pathlib import Path

import pytest

MODEL = ("--model", "llama3-8b", "--seq", "64k")


def estimate(lcplan, hw):
    """The estimate of one strategy over all devices of the hardware."""
    answer = lcplan("estimate", *MODEL, "--hw", hw, "--mesh", "fsdp=32", "--format", "json")
    assert answer.code == 0, answer.err
    return answer.json["candidate"]["estimate"]


def test_a_file_with_a_smaller_peak_takes_longer_at_the_same_share_of_it(lcplan):
    Path("cut.yaml").write_text("base: dgx-h100x4\ndevice: {peak_flop_per_s: 148TFLOP/s}\n")
    whole, cut = estimate(lcplan, "dgx-h100x4"), estimate(lcplan, "cut.yaml")
    assert cut["step_s"] > 5 * whole["step_s"]
    assert cut["mfu_ratio"] < 1
    assert cut["mfu_ratio"] == pytest.approx(whole["mfu_ratio"], rel=0.1)
    shown = lcplan("estimate", *MODEL, "--hw", "cut.yaml", "--mesh", "fsdp=32")
    words = " ".join((shown.out + shown.err).split())
    assert "cut: rates measured on another device of this name are scaled (computation x 0.15, for a peak of 148" in words


def test_a_file_with_a_rate_above_its_peak_is_bad_input(lcplan):
    Path("fast.yaml").write_text("base: dgx-h100\ndevice: {rates: {gemm_flop_per_s: 1200TFLOP/s}}\n")
    answer = lcplan("estimate", *MODEL, "--hw", "fast.yaml", "--mesh", "fsdp=8")
    assert (answer.code, answer.out) == (2, "")
    assert "device.rates.gemm_flop_per_s=1.2e+15 is above device.peak_flop_per_s=9.89e+14; correct one of them" in answer.err


def test_an_amd_node_is_planned_with_its_own_library_alone(lcplan):
    search = ("search", "--model", "llama3-8b", "--seq", "128k", "--hw", "mi300x", "--stages", "modelled", "--format", "json")
    answer = lcplan(*search)
    assert answer.code == 0, answer.err
    assert {one["strategy"]["backend"] for one in answer.json["candidates"]} == {"rccl"}
    refused = lcplan(*search, "--backend", "nvshmem", "--out", "other")
    assert refused.code == 2
    assert "--backend nvshmem: mi300x has rccl" in refused.err


def test_hardware_in_other_words_is_read_with_a_note(lcplan):
    answer = lcplan("estimate", *MODEL, "--hw", "8xH100", "--mesh", "fsdp=8", "--format", "json")
    assert answer.code == 0, answer.err
    assert answer.json["request"]["hardware"]["name"] == "dgx-h100"
    assert answer.err.startswith("note: '8xH100' is read as dgx-h100, which has 8 devices\n")
    refused = lcplan("estimate", *MODEL, "--hw", "4xH100", "--mesh", "fsdp=4")
    assert refused.code == 2
    assert "use --hw dgx-h100 --devices 4" in refused.err


MAXTEXT = """
base_config: base.yml
model_name: llama3-8b
hardware: gpu
attention: cudnn_flash_te
ici_fsdp_parallelism: 8
remat_policy: minimal_flash
per_device_batch_size: 4
max_target_length: 8192
"""


def test_a_maxtext_file_for_amd_gpus_is_priced_with_transformer_engines_attention(lcplan):
    Path("run.yml").write_text(MAXTEXT)
    answer = lcplan("estimate", "--from-maxtext", "run.yml", "--hw", "8xmi300x", "--format", "json")
    assert answer.code == 0, answer.err
    found = answer.json["candidate"]
    assert found["strategy"]["backend"] == "rccl"
    # Causal products of 4 sequences: 32 layers, 32 heads of 128, two products forward and five backward
    flop = 4 * 32 * 7 * 2 * 8192 * 4096 * 32 * 128
    assert 350e12 < flop / found["estimate"]["time_s"]["attention"] < 550e12


@pytest.mark.parametrize("slice_name", ["tpu-v2-8", "tpu-v3-8"])
@pytest.mark.slow  # a compile
def test_the_first_tpus_are_compiled_for_with_blockwise_attention(lcplan, slice_name):
    job = ("--model", "llama-tiny", "--seq", "2k", "--global-batch", "4", "--hw", slice_name, "--mesh", "context=4,fsdp=2")
    answer = lcplan("estimate", *job, "--scheme", "ring", "--compile", "--format", "json")
    assert answer.code == 0, answer.err
    compiled = answer.json["candidate"]["compiled"]
    assert (compiled["rung"], compiled["error"], compiled["kernels"]) == ("compiled:target", None, ["blockwise"])
    assert compiled["fits"] is True
    modelled = answer.json["candidate"]["estimate"]["memory_bytes"]["total"]
    assert modelled == pytest.approx(compiled["total_bytes"], rel=0.5)


def test_slices_of_the_first_tpus_cannot_be_joined(lcplan):
    answer = lcplan("estimate", *MODEL, "--hw", "tpu-v3-8x2", "--mesh", "fsdp=16")
    assert answer.code == 2
    assert "slices of tpu-v3 cannot be joined over the data-center network; use a larger slice, up to tpu-v3-2048" in answer.err


CARDS = """
kind: gpu
domain_size: 4
node_size: 4
device: {name: some-gpu, peak_flop_per_s: 400TFLOP/s, hbm_bytes: 64GiB, hbm_bytes_per_s: 2000GB/s}
domain_link: {name: some-link, oneway_bytes_per_s: 200GB/s, latency_s: 2us}
allowance: {usable_ratio: 0.9, runtime_bytes: 0, communicator_bytes: 0}
"""


@pytest.mark.slow  # a compile; test_candidate.py has the rule
def test_a_compile_for_host_devices_rejects_no_candidate_for_another_device(lcplan):
    """As for MI300X without a compiler: 100.8 GiB by the laws, 220 as compiled for the host, of 176.6."""
    Path("cards.yaml").write_text(CARDS)
    job = ("--model", "llama-tiny", "--seq", "4k", "--global-batch", "4", "--hw", "cards.yaml", "--mesh", "fsdp=4")
    answer = lcplan(
        "search", *job, "--remat", "full", "--devices", "4", "--budget", "100MiB", "--survivors", "1", "--format", "json"
    )
    assert answer.code == 0, answer.err
    (candidate,) = answer.json["candidates"]
    assert candidate["compiled"]["rung"] == "compiled:host"
    assert candidate["compiled"]["total_bytes"] > 100 * 2**20 > candidate["estimate"]["memory_bytes"]["total"]
    assert candidate["best"]["memory_bytes"] == candidate["estimate"]["memory_bytes"]["total"]
    assert candidate["best"]["fits"] is True


@pytest.mark.parametrize(
    ("hardware", "devices", "larger"),
    [("gb200-nvl72x4", 512, "gb200-nvl72x8"), ("gb200-nvl72x4:64", 512, "gb200-nvl72x8:64"), ("mi300x", 32, "mi300xx4")],
)
def test_hardware_that_a_message_offers_exists_and_is_enough(lcplan, hardware, devices, larger):
    job = ("--model", "llama3-8b", "--seq", "64k", "--devices", str(devices), "--mesh", f"context=8,fsdp={devices // 8}")
    refused = lcplan("estimate", *job, "--hw", hardware)
    assert refused.code == 2
    assert f"--hw {larger}" in refused.err
    assert lcplan("estimate", *job, "--hw", larger).code == 0


def test_a_search_for_maxtext_on_amd_prices_its_fused_attention(lcplan):
    search = ("search", "--model", "llama3-8b", "--seq", "8k", "--hw", "mi300x", "--stages", "modelled", "--format", "json")
    job = ("--mesh", "fsdp=8", "--remat", "full", "--microbatches", "64")
    answers = [lcplan(*search, *job), lcplan(*search, *job, "--for", "maxtext", "--out", "m")]
    own, theirs = (answer.json["winner"]["best"]["step_s"] for answer in answers)
    assert theirs < own / 1.3
