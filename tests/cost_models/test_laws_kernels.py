"""Kernel laws: by hand, at their limits, and against published kernels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.compute.exponential import exponential_share
from cost_models.compute.kernels import (
    attention_flop,
    attention_seconds,
    gemm_seconds,
    head_dim_ratio,
    memory_seconds,
)
from cost_models.inputs.program import STEP
from cost_models.inputs.setting import Setting
from cost_models.rates.published import IN_STEP, inherited_rates, rates_for, rates_of
from cost_models.rates.scaling import POWER_EXPONENT
from lcplan.catalog import hardware, hardware_names, model
from lcplan.spec.workload import Workload

positive = st.floats(1.0, 1e15)


def test_a_product_is_bound_by_the_slower_of_units_and_memory():
    # 2 x 4096^3 = 137.4 GFLOP at 1 PFLOP/s: 137 us; 3 x 4096^2 x 2 = 100.7 MB at 1 TB/s: 101 us
    flop, traffic = np.array(2.0 * 4096**3), np.array(6.0 * 4096**2)
    assert gemm_seconds(flop, traffic, flop_per_s=1e15, hbm_bytes_per_s=1e12) == pytest.approx(137.4e-6, rel=1e-3)
    assert gemm_seconds(flop, traffic, flop_per_s=1e16, hbm_bytes_per_s=1e12) == pytest.approx(100.7e-6, rel=1e-3)


@given(positive, positive)
def test_a_product_never_beats_either_bound(flop, traffic):
    time = gemm_seconds(np.array(flop), np.array(traffic), flop_per_s=3.0, hbm_bytes_per_s=7.0)
    assert time >= flop / 3
    assert time >= traffic / 7


def test_attention_at_its_half_length_runs_at_half_rate_and_at_full_rate_far_beyond():
    work = np.array(1e12)
    assert attention_seconds(work, np.array(500.0), flop_per_s=1e12, half_tokens=500.0) == 2.0
    assert attention_seconds(work, np.array(5e8), flop_per_s=1e12, half_tokens=500.0) == pytest.approx(1.0, rel=1e-5)


@given(st.floats(16.0, 1e6))
def test_attention_of_one_amount_of_work_gets_no_slower_with_longer_keys(keys):
    longer = attention_seconds(np.array(1.0), np.array(2 * keys), flop_per_s=1.0, half_tokens=500.0)
    assert longer <= attention_seconds(np.array(1.0), np.array(keys), flop_per_s=1.0, half_tokens=500.0)


def test_attention_work_is_linear_in_each_of_its_lengths():
    base = attention_flop(np.array(10.0), np.array(20.0), width=np.array(30.0))
    assert base == 4 * 10 * 20 * 30
    assert attention_flop(np.array(20.0), np.array(20.0), width=np.array(30.0)) == 2 * base
    assert attention_flop(np.array(10.0), np.array(40.0), width=np.array(30.0)) == 2 * base


def test_small_kernels_stop_at_their_floor():
    assert memory_seconds(np.array(0.0), 10.0, hbm_bytes_per_s=1e12, floor_s=3e-6) == pytest.approx(30e-6)
    assert memory_seconds(np.array(1e12), 10.0, hbm_bytes_per_s=1e12, floor_s=3e-6) == 1.0


@pytest.mark.parametrize(
    ("machine", "seconds"),
    [("gb200-nvl72", 1.397e-3 / 2), ("dgx-h200", 1.708e-3)],  # per sequence; the GB200 row has two
)
def test_published_cudnn_forward_at_8192_causal(machine, seconds):
    # cudnn-frontend, llama3.1 rows: 64 heads of 128: 4 x 8192 x 4096 x 8192 FLOP; a kernel of 2 ms meets no power limit
    # yet, which takes 2-5 % of the long kernels that the rate stands for, and is timed alone, not inside a step
    rates = rates_of(hardware(machine))
    work = attention_flop(np.array(8192.0), np.array(4096.0), width=np.array(64 * 128.0))
    time = attention_seconds(
        work, np.array(4096.0), flop_per_s=rates.attention_forward.value, half_tokens=rates.forward_half_tokens
    )
    assert time * IN_STEP["forward"] == pytest.approx(seconds, rel=0.08)


def test_a_score_costs_the_same_exponential_whatever_its_head():
    assert head_dim_ratio(128) == 1.0
    assert head_dim_ratio(64) == pytest.approx(1.5 / 2.0)  # half the products beside each exponential
    assert head_dim_ratio(32) == pytest.approx(1.5 / 3.0)
    assert head_dim_ratio(32, exponential_share=0.25) == pytest.approx(1.25 / 2.0)  # an A100's products take twice as long
    assert head_dim_ratio(128, 256) == 0.5  # half of a 256 x 256 unit idle
    assert head_dim_ratio(256, 256) > 1.0


@pytest.mark.parametrize(
    ("machine", "share"),
    [
        ("dgx-a100-80", 0.25),  # 312 TFLOP/s over 108 x 1.41 GHz: 2048 FLOP a clock, 512 in a quarter; an exponential a 16th
        ("dgx-h100", 0.5),  # 4096, FlashAttention-3's own figure
        ("gb200-nvl72", 0.5),  # 8192, but part of the exponentials run elsewhere
        ("tpu-v5p-8", 0.5),  # not stated
    ],
)
def test_exponentials_weigh_more_where_products_are_faster(machine, share):
    assert exponential_share(hardware(machine)) == share


def test_rates_of_a_device_with_another_peak_or_memory_are_scaled_and_say_so():
    full = hardware("dgx-h100")
    figures = {"peak_flop_per_s": 148e12, "hbm_bytes_per_s": 4.0e12}
    changed = {name: getattr(full.device, name).model_copy(update={"value": value}) for name, value in figures.items()}
    cut = full.model_copy(update={"device": full.device.model_copy(update=changed)})
    found, own = rates_of(cut), rates_of(full)
    for name in ("gemm", "attention_forward", "attention_backward"):
        assert getattr(found, name).value == pytest.approx(getattr(own, name).value * 148 / 989)
        assert "x 0.15 for a peak of 148 TFLOP/s in place of 989" in found.basis[name]
        assert found.basis[name].startswith("fallback: ")
    assert found.hbm.value == pytest.approx(own.hbm.value * 4.0e12 / 3.35232e12)
    assert "x 1.19 for the memory's nominal bandwidth" in found.basis["hbm"]
    assert inherited_rates(cut) == (
        "computation x 0.15, for a peak of 148 TFLOP/s in place of 989; memory x 1.19, for 4000 GB/s in place of 3352"
    )
    assert inherited_rates(full) == ""
    program = STEP.model_copy(update={"attention": "flash2"})
    older = rates_for(
        Setting(model("llama3-8b"), cut, Workload(seq_len=8192, global_batch=1), cut.usable_bytes, program=program)
    )
    assert older.attention_forward.value == pytest.approx(382e12 * IN_STEP["forward"] * 148 / 989)


@pytest.mark.parametrize("name", [name for name in hardware_names() if not name.endswith("-N")])
def test_no_entry_of_the_catalogue_is_scaled_from_another_device(name):
    assert inherited_rates(hardware(name)) == ""


def test_a_power_cap_slows_compute_and_nothing_else():
    full = hardware("dgx-h100")
    cap = full.device.power_w.model_copy(update={"value": 500.0})
    capped = full.model_copy(update={"device": full.device.model_copy(update={"power_w": cap})})
    ratio = (500 / 700) ** POWER_EXPONENT
    assert rates_of(capped).gemm.value == pytest.approx(rates_of(full).gemm.value * ratio)
    assert rates_of(capped).attention_forward.value == pytest.approx(rates_of(full).attention_forward.value * ratio)
    assert rates_of(capped).hbm == rates_of(full).hbm
    more = full.model_copy(update={"device": full.device.model_copy(update={"power_w": None})})
    assert rates_of(more).gemm == rates_of(full).gemm


def test_attention_of_an_unmeasured_gpu_before_hopper_is_that_of_an_a100_with_its_own_exponentials():
    # an L40S computes half of an A100's products per clock and multiprocessor: its exponentials take 1/8 of the products' time
    found = rates_of(hardware("pcie-l40s"))
    assert found.exponential_share == 0.125
    assert found.attention_forward.value == pytest.approx(362.05e12 / (312 / 215 - 0.25 + 0.125), rel=1e-6)
    assert found.attention_backward.value == pytest.approx(362.05e12 / (312 / 194 - 0.1 + 0.05), rel=1e-6)
    assert not found.attention_forward.measured
