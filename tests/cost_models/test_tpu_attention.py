"""Attention on TPU: rates by generation, kernel, head size and length, against published kernels and steps."""

import numpy as np
import pytest

from cost_models.attention.work import ring_steps
from cost_models.compute.kernels import attention_seconds
from cost_models.inputs.layout import Layout
from cost_models.inputs.program import STEP
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.rates.published import rates_for, rates_of
from lcplan.catalog import hardware, model
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy

TOKAMAX = STEP.model_copy(update={"attention": "tokamax"})
IRONWOOD_FLOP_PER_S = 1.15e15
LENGTHS = (4096, 8192, 32768, 131072)
PUBLISHED_SHARES = {
    (128, False): (0.2062, 0.2487, 0.3091, 0.3426),
    (128, True): (0.2521, 0.3015, 0.3473, 0.3716),
    (256, False): (0.3582, 0.4486, 0.5681, 0.6335),
    (256, True): (0.4800, 0.5690, 0.6581, 0.7171),
}
"""Share of Ironwood's peak by head size and pass (openxla/tokamax, microbenchmarks.pdf, 32 heads, causal)."""


def setting_of(machine, *, program=TOKAMAX, seq_len=8192):
    """One device's sequence of llama3-8b."""
    devices = hardware(machine).domain_size
    return Setting(
        model("llama3-8b"), hardware(machine), Workload(seq_len=seq_len, global_batch=devices), 10**11, program=program
    )


@pytest.mark.parametrize(("head_dim", "backward"), PUBLISHED_SHARES)
def test_rates_of_tokamax_on_ironwood(head_dim, backward):
    rates = rates_for(setting_of("tpu-7x-128"))
    rate, half = rates.attention_forward.value, rates.forward_half_tokens
    if backward:
        rate, half = rates.attention_backward.value, rates.backward_half_tokens
    rate *= rates.head_ratio(head_dim, backward=backward)
    for length, share in zip(LENGTHS, PUBLISHED_SHARES[head_dim, backward], strict=True):
        seconds = float(attention_seconds(np.array(1e12), np.array(length / 2), flop_per_s=rate, half_tokens=half))
        assert 1e12 / seconds == pytest.approx(share * IRONWOOD_FLOP_PER_S, rel=0.05)


def test_two_backward_kernels_make_seven_products_in_place_of_five():
    for machine in ("tpu-7x-128", "tpu-v6e-64", "tpu-v5p-128", "tpu-v5e-64", "tpu-v4-128"):
        two, one = rates_for(setting_of(machine, program=STEP)), rates_for(setting_of(machine))
        assert two.attention_backward.value == pytest.approx(one.attention_backward.value * 5 / 7, rel=1e-3)
        assert two.attention_forward.value == one.attention_forward.value


def test_narrow_heads_take_as_long_as_heads_of_128():
    rates = rates_of(hardware("tpu-7x-128"))
    assert rates.head_ratio(128, backward=False) == 1.0
    assert rates.head_ratio(64, backward=False) == 0.5  # a score takes as long, with half of the products
    assert rates.head_ratio(256, backward=True) == pytest.approx(rates.wide_backward)


def test_the_rate_rises_with_the_length():
    times = []
    for seq_len in (4096, 131072):
        setting = setting_of("tpu-7x-128", seq_len=seq_len)
        layout = Layout(setting, StrategyTable.from_strategies([Strategy(mesh=Mesh(fsdp=128))]))
        times.append(float(ring_steps(layout, rates_for(setting), backward=False).total_s[0]))
    assert 0.55 < times[1] / times[0] / 32**2 < 0.65  # the published rates differ by 0.3426 / 0.2062 = 1 / 0.60
