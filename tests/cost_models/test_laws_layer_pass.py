"""One layer alone: what its parts add up to, and what hidden collectives take from products."""

import pytest

from cost_models.inputs.program import PROGRAMS
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.time.layer_pass import layer_pass_seconds
from lcplan.catalog import hardware
from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy

GPT_22B = ModelSpec(
    name="gpt-22b", layers=1, d_model=6144, d_ff=24576, heads=64, kv_heads=64, head_dim=96, vocab=51200, mlp="plain"
)  # fmt: skip
"""Table 4 of Korthikanti et al. (arXiv:2205.05198)."""


def _layer(remat="save-all", tensor=8, **program):
    spec = hardware("dgx-a100-80")
    made = PROGRAMS["megatron-2022"].model_copy(update=program)
    setting = Setting(GPT_22B, spec, Workload(seq_len=2048, global_batch=4), spec.usable_bytes, made)
    table = StrategyTable.from_strategies([Strategy(mesh=Mesh(tensor=tensor), remat=remat)])
    forward, backward = layer_pass_seconds(setting, table)
    return float(forward[0]), float(backward[0])


def test_a_layer_repeated_whole_takes_its_forward_pass_more():
    """What is repeated is the forward pass with its two gathers and two scatters: 19.5 ms against 11.9 + 7.7 in table 4."""
    kept, repeated = _layer("none"), _layer("full")
    assert repeated[0] == pytest.approx(kept[0])
    assert repeated[1] == pytest.approx(kept[1] + kept[0], rel=0.02)


def test_hidden_collectives_take_24_of_108_multiprocessors():
    """All-reduces of 2 x 2048 x 4 x 6144 bytes that run beside products cost these 24 blocks of an A100's 108 for as long.

    Exposed, the pass pays all of them; hidden, what sticks out and 24/108 of the rest: 84/108 of what is hidden is gained.
    """
    exposed = _layer(stream="exposed")
    hidden = _layer(stream="backward-beside-products")
    assert hidden[0] == exposed[0]
    spec = hardware("dgx-a100-80")
    free = spec.model_copy(update={"device": spec.device.model_copy(update={"gpu": None})})
    setting = Setting(GPT_22B, free, Workload(seq_len=2048, global_batch=4), spec.usable_bytes, PROGRAMS["megatron-2022"])
    table = StrategyTable.from_strategies([Strategy(mesh=Mesh(tensor=8), remat="save-all")])
    without = float(layer_pass_seconds(setting, table)[1][0])
    assert without < hidden[1] < exposed[1]
    assert (exposed[1] - hidden[1]) == pytest.approx((exposed[1] - without) * 84 / 108)


def test_one_device_has_no_collectives_to_hide():
    assert _layer(tensor=1) == _layer(tensor=1, stream="exposed")


def test_published_figure():
    """Table 4, no recomputation: 7.7 ms forward and 11.9 ms backward."""
    forward, backward = _layer("none")
    assert forward == pytest.approx(7.7e-3, rel=0.08)
    assert backward == pytest.approx(11.9e-3, rel=0.05)
