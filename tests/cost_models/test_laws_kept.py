from dataclasses import replace

import numpy as np
import pytest

from cost_models.estimate import estimate
from cost_models.inputs.layout import Layout
from cost_models.inputs.program import Program
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.memory.saved_tensors import (
    host_bytes,
    kept_bytes,
    offload_seconds,
    offloading_layers,
    on_device_bytes,
)
from lcplan.catalog import hardware, model
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy
from strategies.inputs.step_spec import StepSpec
from strategies.model.layer_loops import loops


def layout_of(program=None, *, remat="save-qkv", machine="dgx-h100", mesh=None, scheme="ring"):
    spec = hardware(machine)
    work = Workload(seq_len=8192, global_batch=8)
    setting = Setting(model("llama3-8b"), spec, work, spec.usable_bytes, program or Program())
    return Layout(setting, StrategyTable.from_strategies([Strategy(mesh=mesh or Mesh(fsdp=8), scheme=scheme, remat=remat)]))


def sharing(percent, of="llama3-8b"):
    """The share beside all of the layers."""
    whole = layout_of(remat="offload-layer-in")
    setting = replace(whole.setting, model=model(of))
    strategy = whole.table.strategy(0)
    return Layout(setting, StrategyTable.from_strategies([strategy.model_copy(update={"offload_percent": percent}), strategy]))


def test_sizes_by_hand():
    kept = {name: float(size[0]) for name, size in kept_bytes(layout_of()).items()}
    token = 2 * 8192  # bf16
    assert kept["layer_in"] == token * 4096
    assert kept["query"] == token * 4096
    assert kept["key"] == token * 1024
    assert kept["lse"] == 4 * 8192 * 32
    assert kept["gate"] == 0.0  # the policy does not keep it


def test_what_a_program_computes_in_fp32_it_keeps_so():
    fp32 = Program(attention="unfused", attention_dtype="fp32", norms="kept")
    plain, wide = kept_bytes(layout_of(remat="save-all")), kept_bytes(layout_of(fp32, remat="save-all"))
    assert [wide[name][0] / plain[name][0] for name in ("query", "key", "value", "attention_output", "gate")] == [2, 2, 2, 2, 1]
    assert wide["lse"][0] == 4 * 32 * 8192 * 8192  # every score's weight in place of log-sum-exps
    assert wide["norms"][0] == 2 * 4 * 8192 * 4096
    assert not kept_bytes(layout_of(fp32, remat="full"))["norms"].any()  # remat makes them again
    assert not kept_bytes(layout_of(fp32, remat="full"))["lse"].any()


@pytest.mark.parametrize("scheme", ["ring", "ring-zigzag", "all-gather", "ulysses"])
def test_unfused_weights_are_of_all_keys_however_the_sequence_is_split(scheme):
    """A quarter of the queries and all heads, or all queries and a quarter of the heads: with 8192 keys each."""
    unfused = Program(attention="unfused")
    split = layout_of(unfused, remat="save-all", mesh=Mesh(context=4), scheme=scheme)
    assert kept_bytes(split)["lse"][0] == 8 * 2 * (8192 / 4) * 8192 * 32  # 8 sequences in bf16


def test_what_is_offloaded_is_gone_from_the_device_and_not_repeated():
    away = Program(offloaded=("query", "key", "value", "layer_in"))
    here, there = layout_of(), layout_of(away)
    gone = sum(float(kept_bytes(here)[name][0]) for name in away.offloaded)
    assert on_device_bytes(here)[0] - on_device_bytes(there)[0] == pytest.approx(32 * gone)
    same = [estimate(x.setting, x.table).time_s["recompute"][0] for x in (here, there)]
    assert same[0] == same[1]


def test_a_policy_that_offloads_prices_as_the_program_does():
    by_policy, by_program = layout_of(remat="offload-layer-in"), layout_of(Program(offloaded=("layer_in",)), remat="full")
    assert on_device_bytes(by_policy)[0] == on_device_bytes(by_program)[0] == 0.0
    assert host_bytes(by_policy)[0] == host_bytes(by_program)[0] == 32 * 2 * 8192 * 4096
    assert offload_seconds(by_policy)[0] == offload_seconds(by_program)[0] > 0.0
    assert host_bytes(layout_of(remat="save-except-mlp"))[0] == 0.0


def test_transfers_go_both_ways_over_the_host_link():
    layout = layout_of(Program(offloaded=("query",)))
    link = layout.setting.hardware.device.host_oneway_bytes_per_s.value
    assert offload_seconds(layout)[0] == pytest.approx(2 * 2 * 8192 * 4096 / link)
    assert offload_seconds(layout_of())[0] == 0.0


@pytest.mark.parametrize(("machine", "exposed_reads"), [("dgx-h100", 1), ("tpu-v5p-8", 0)])
def test_a_gpu_waits_for_what_it_reads_back_from_its_host(machine, exposed_reads):
    plain, away = layout_of(remat="full", machine=machine), layout_of(remat="offload-layer-in", machine=machine)
    overhead = [estimate(layout.setting, layout.table).time_s["overhead"][0] for layout in (plain, away)]
    reads = 32 * offload_seconds(away)[0] / 2
    assert reads > 0
    assert overhead[1] - overhead[0] == pytest.approx(exposed_reads * reads, abs=1e-12)


def test_half_of_the_layers_offload_half_as_much_in_half_the_time():
    half = sharing(50)
    stream = 2 * 8192 * 4096
    assert list(host_bytes(half)) == [16 * stream, 32 * stream]
    assert list(on_device_bytes(half)) == [16 * stream, 0.0]
    plain = layout_of(remat="full")
    half_s, whole_s = (
        estimate(half.setting, half.table).time_s["overhead"] - estimate(plain.setting, plain.table).time_s["overhead"]
    )
    assert half_s == pytest.approx(whole_s / 2)


@pytest.mark.parametrize("name", ["llama3-8b", "deepseek-v3", "gemma-3-1b", "llama-tiny"])
@pytest.mark.parametrize("percent", [1, 25, 33, 50, 99, 100])
def test_the_law_counts_the_layers_that_the_steps_loops_offload(name, percent):
    layout = sharing(percent, of=name)
    step = StepSpec(layout.setting.model, layout.setting.workload, layout.table.strategy(0), "blockwise")
    away = [loop for loop in loops(step) if loop.policy.offloaded]
    assert sum(loop.repeats * len(loop.period) for loop in loops(step)) == layout.setting.model.layers
    for part in layout.parts:
        own = sum(loop.repeats * loop.period.count(part.setting.model.kind_of(0)) for loop in away)
        assert np.broadcast_to(offloading_layers(part), 2)[0] == own


def test_transfers_that_outlast_a_layer_are_exposed():
    fast = layout_of(Program(offloaded=("query",)))
    link = fast.setting.hardware.device.host_oneway_bytes_per_s
    device = fast.setting.hardware.device.model_copy(update={"host_oneway_bytes_per_s": link.model_copy(update={"value": 1e8})})
    spec = fast.setting.hardware.model_copy(update={"device": device})
    slow = Setting(fast.setting.model, spec, fast.setting.workload, spec.usable_bytes, fast.setting.program)
    assert estimate(slow, fast.table).step_s[0] > 2 * estimate(fast.setting, fast.table).step_s[0]
