"""What an eager host adds to attention, and when it does not matter."""

import numpy as np
import pytest

from cost_models.compute.host_time import KERNEL_CALL_S, eager_attention_seconds
from cost_models.compute.launches import layer_launches
from cost_models.inputs.constants import published_constants
from cost_models.inputs.layout import Layout
from cost_models.inputs.program import PROGRAMS, Program
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.rates.published import rates_for
from cost_models.time.attention_pass import attention_pass_seconds
from cost_models.time.step import StepTime
from lcplan.catalog import hardware, model
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy


def _pass(seq_len, program="torch-fsdp", **fields):
    spec = hardware("dgx-a100-80")
    work = Workload(seq_len=seq_len, global_batch=1)
    one_layer = model("llama3-8b").model_copy(update={"layers": 1})
    setting = Setting(one_layer, spec, work, spec.usable_bytes, PROGRAMS[program])
    return [float(t[0]) for t in attention_pass_seconds(setting, StrategyTable.from_strategies([Strategy(**fields)]))]


def test_calls_by_hand():
    # one kernel; a ring of 8; 8 ranks that exchange heads: 1 + 4 calls; two groups of 4: 2 + 4
    calls = eager_attention_seconds(np.array([1.0, 8.0, 1.0, 2.0]), np.array([1.0, 1.0, 8.0, 4.0]), call_s=1e-3)
    assert calls.tolist() == pytest.approx([KERNEL_CALL_S, 8e-3, 5e-3, 6e-3])


def test_short_sequences_wait_for_the_host_and_long_ones_do_not():
    ring = {"mesh": Mesh(context=8), "scheme": "ring-zigzag"}
    call_s = published_constants().eager_attention_call_s
    short = _pass(2048, **ring)
    assert short == pytest.approx([8 * call_s, 16 * call_s])
    assert _pass(1024, **ring) == short
    long = _pass(2**18, **ring)
    assert long == pytest.approx(_pass(2**18, program="torch-compile", **ring))
    assert long[0] > 8 * call_s


def test_a_compiled_program_has_no_such_floor():
    ring = {"mesh": Mesh(context=8), "scheme": "ring-zigzag"}
    assert _pass(2048, program="torch-compile", **ring)[0] < _pass(2048, **ring)[0] / 10


def _layout(program, name="llama3-8b", hw="dgx-h100", seq_len=512, **mesh):
    spec = hardware(hw)
    work = Workload(seq_len=seq_len, global_batch=8)
    setting = Setting(model(name), spec, work, spec.usable_bytes, program)
    strategy = Strategy(mesh=Mesh(**mesh), scheme="ring-zigzag")
    return Layout(setting, StrategyTable.from_strategies([strategy]))


@pytest.mark.parametrize(
    ("name", "changes", "mesh", "launches"),
    [
        ("megatron", {}, {"data": 8}, 7 + 4 + 2 + 2 + 2 + 1),
        ("megatron", {"attention": "unfused"}, {"data": 8}, 18 + 4),
        ("megatron", {"dropout": True}, {"data": 8}, 18 + 2),
        ("megatron", {}, {"data": 4, "tensor": 2}, 18 + 4),
        ("megatron", {"sequence_parallel": False}, {"data": 4, "tensor": 2}, 18 + 2),
        ("megatron", {}, {"data": 2, "context": 4}, 18 + 3 * 3),
        ("torch-fsdp", {}, {"fsdp": 8}, 18 + 4),
        ("torch-eager", {}, {"fsdp": 8}, 7 + 4 + 12 + 10 + 2 + 2 + 4),
        ("torch-compile", {}, {"fsdp": 8}, 7 + 4 + 4 + 4),
        ("torch-eager", {"dispatch": "graphs"}, {"fsdp": 8}, 0),
        ("flash", {}, {"fsdp": 8}, 0),
    ],
)
def test_launches_of_a_layer_by_hand(name, changes, mesh, launches):
    assert layer_launches(_layout(PROGRAMS[name].model_copy(update=changes), **mesh)).tolist() == [launches]


def test_a_mixture_launches_its_router_and_its_moves():
    dense, routed = (layer_launches(_layout(PROGRAMS["megatron"], name, data=8))[0] for name in ("llama3-8b", "mixtral-8x7b"))
    assert routed - dense == 20 - 3


def test_small_steps_wait_for_the_host_by_framework():
    """On the fastest GPUs a small step takes as long as its launches; a graph and a compiler make fewer."""
    waits = {}
    for name, changes in (("torch-eager", {}), ("torch-compile", {}), ("torch-eager", {"dispatch": "graphs"})):
        layout = _layout(PROGRAMS[name].model_copy(update=changes), hw="dgx-b200", fsdp=8)
        waits[name, *changes.values()] = StepTime(layout, rates_for(layout.setting))._host_wait[0]
    assert waits["torch-eager",] > waits["torch-compile",] > waits["torch-eager", "graphs"] == 0.0


def test_dropout_and_a_fixed_order_of_sums_take_time():
    plain, dropped, fixed = (
        StepTime(layout, rates_for(layout.setting))
        for layout in (
            _layout(Program(**changes), seq_len=8192, fsdp=8) for changes in ({}, {"dropout": True}, {"deterministic": True})
        )
    )
    elements = plain.layout.stream_tokens[0] * 4096
    assert dropped.hbm[0] - plain.hbm[0] == pytest.approx(32 * 12 * elements / plain.rates.hbm.value)
    assert fixed.backward_attention.first_s[0] == pytest.approx(plain.backward_attention.first_s[0] / (1 - 0.379))
    assert fixed.forward_attention.first_s[0] == plain.forward_attention.first_s[0]
