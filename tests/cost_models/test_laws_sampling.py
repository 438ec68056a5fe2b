"""Laws of a rollout: numbers worked by hand, limit cases, and the compiler's own figures."""

import numpy as np
import pytest

from cost_models.inputs.setting import Setting
from cost_models.rollout.estimate import estimate_rollout, rollout_need_bytes
from cost_models.rollout.layout import mean_read_positions
from cost_models.rollout.table import RolloutTable
from lcplan import catalog
from lcplan.spec.rollout_workloads import SampleWorkload
from lcplan.strategy import Mesh, Sampling, Strategy

GIB = 2**30
MODEL = catalog.model("qwen3-1.7b")


def rollout(parameters: str, cache: str = "whole", **mesh: int) -> Strategy:
    sizes = Mesh(**mesh)
    return Strategy(mesh=sizes, backend="ici", sampling=Sampling(mesh=sizes, parameters=parameters, cache=cache))


def setting(hardware: str = "tpu-v4-32", **fields) -> Setting:
    machine = catalog.hardware(hardware)
    work = SampleWorkload(**{"prompt": 256, "generate": 1024, "batch": 512, **fields})
    return Setting(MODEL, machine, work, machine.usable_bytes)


def priced(strategy: Strategy, **fields) -> dict:
    return estimate_rollout(setting(**fields), RolloutTable.from_strategies([strategy])).row(0)


def test_the_cache_by_hand():
    memory = priced(rollout("gathered-per-step", fsdp=16))["memory_bytes"]
    assert memory["kv_cache"] == 28 * 2 * 32 * 8 * 1280 * 128 * 2, "L 2 b K S H in bf16: 4.375 GiB"
    assert priced(rollout("gathered-per-step", fsdp=16), kv_dtype="fp32")["memory_bytes"]["kv_cache"] == 8.75 * GIB


# Compiled with jax 0.10.1: total bytes, GiB. v4-32 by libtpu 0.0.41, GB200 by its CUDA plugin.
COMPILED = [
    ("tpu-v4-32", rollout("gathered-per-step", fsdp=16), 5.524),
    ("tpu-v4-32", rollout("gathered-once", fsdp=16), 8.184),
    ("tpu-v4-32", rollout("replicated", data=16), 7.581),
    ("tpu-v4-32", rollout("tensor-sharded", data=4, tensor=4), 5.177),
    ("gb200-nvl72", rollout("replicated", data=16), 7.655),
    ("gb200-nvl72", rollout("tensor-sharded", data=4, tensor=4), 5.208),
    ("gb200-nvl72", rollout("tensor-sharded", tensor=16), 9.024),
    ("gb200-nvl72", rollout("gathered-once", fsdp=4, tensor=4), 5.779),
    ("gb200-nvl72", rollout("gathered-per-step", fsdp=4, tensor=4), 4.961),
    ("gb200-nvl72", rollout("gathered-per-step", data=4, fsdp=4), 6.706),
]


@pytest.mark.parametrize(
    ("kv_dtype", "donate", "compiled_gib"), [("fp32", False, 18.608), ("bf16", False, 9.858), ("bf16", True, 5.524)]
)
def test_the_seeds_three_caches_within_two_per_cent_of_the_compiler(kv_dtype, donate, compiled_gib):
    found = priced(rollout("gathered-per-step", fsdp=16), kv_dtype=kv_dtype, donate=donate)["memory_bytes"]["total"] / GIB
    assert found == pytest.approx(compiled_gib, rel=0.02)


def test_an_fp8_cache_within_two_per_cent_of_the_compiler():
    found = priced(rollout("replicated", data=16), kv_dtype="fp8")["memory_bytes"]["total"] / GIB
    assert found == pytest.approx(5.461, rel=0.025)


@pytest.mark.parametrize(("hardware", "strategy", "compiled_gib"), COMPILED)
def test_total_within_five_per_cent_of_the_compiler(hardware, strategy, compiled_gib):
    assert priced(strategy, hardware=hardware)["memory_bytes"]["total"] / GIB == pytest.approx(compiled_gib, rel=0.05)


def test_mean_read_positions_is_the_mean_over_steps():
    for prompt, generate in ((256, 1024), (1, 1), (100, 37), (4095, 2)):
        last = prompt + generate
        first = min(1 << prompt.bit_length(), last)
        read = [max(first, min(1 << slot.bit_length(), last)) for slot in range(prompt - 1, last - 1)]
        assert mean_read_positions(prompt, generate) == pytest.approx(np.mean(read))


def test_lengths_save_time_and_no_memory():
    whole, lengths = (priced(rollout("replicated", cache, data=16)) for cache in ("whole", "power-of-two"))
    assert lengths["memory_bytes"] == whole["memory_bytes"]
    assert lengths["time_s"]["kv_cache"] == pytest.approx(whole["time_s"]["kv_cache"] * 959.25 / 1280)


def test_decode_reads_weights_once_whatever_the_batch_until_products_take_longer():
    small, large = (priced(rollout("replicated", data=16), batch=batch) for batch in (16, 512))
    assert small["time_s"]["weights"] == large["time_s"]["weights"]
    huge = priced(rollout("replicated", data=16), batch=16 * 4096)
    assert huge["time_s"]["weights"] > 10 * large["time_s"]["weights"]


def test_gathering_once_costs_memory_and_saves_time():
    once, each = (priced(rollout(name, fsdp=16)) for name in ("gathered-once", "gathered-per-step"))
    copy = 2 * (MODEL.layers * MODEL.layer_matrix_parameters + MODEL.embedding_parameters)
    assert once["memory_bytes"]["gathered_params"] == copy
    assert once["time_s"]["comm_fsdp"] * 500 < each["time_s"]["comm_fsdp"]
    assert once["step_s"] < each["step_s"]


def test_without_donation_there_are_two_caches_and_a_copy():
    kept, copied = (priced(rollout("replicated", data=16), donate=donate) for donate in (True, False))
    extra = copied["memory_bytes"]["total"] - kept["memory_bytes"]["total"]
    assert extra == kept["memory_bytes"]["kv_cache"]
    assert copied["time_s"]["kv_cache"] == pytest.approx(kept["time_s"]["kv_cache"] * 3)


def test_parts_add_up_and_many_rows_are_priced_as_one():
    strategies = [strategy for _, strategy, _ in COMPILED[:8]]
    table = RolloutTable.from_strategies(strategies)
    assert [table.strategy(i) for i in range(len(strategies))] == strategies
    together = estimate_rollout(setting(), table)
    for i, strategy in enumerate(strategies):
        alone = priced(strategy)
        assert together.row(i) == alone
        assert alone["step_s"] == pytest.approx(sum(alone["time_s"].values()))
    needs = rollout_need_bytes(setting(), table)
    assert (needs <= setting().budget_bytes).tolist() == together.fits.tolist()
