"""What an eager host adds to attention, and when it does not matter."""

import numpy as np
import pytest

from cost_models.compute.host_time import KERNEL_CALL_S, eager_attention_seconds
from cost_models.inputs.constants import published_constants
from cost_models.inputs.program import PROGRAMS
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.time.attention_pass import attention_pass_seconds
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
