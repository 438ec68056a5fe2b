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
