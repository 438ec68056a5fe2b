"""Collective matmul: hops beside products, worked by hand, and the published figures."""

from dataclasses import replace

import numpy as np
import pytest

from cost_models.collectives.collective_matmul import RingMatmul
from cost_models.estimate import estimate
from cost_models.inputs.layout import Layout
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.rates.published import rates_for
from lcplan.catalog import hardware, model
from lcplan.spec.workload import Workload
from lcplan.strategy import COLLECTIVE_MATMULS, Mesh, Strategy


def setting_of(machine="tpu-v5e-8", seq=8192):
    spec = hardware(machine)
    return Setting(model("llama3-8b"), spec, Workload(seq_len=seq, global_batch=1), spec.usable_bytes)


def ring_of(ways, *, hop_s, tensor=8, machine="tpu-v5e-8"):
    setting = setting_of(machine)
    layout = Layout(setting, StrategyTable.from_strategies([Strategy(mesh=Mesh(tensor=tensor), collective_matmul=ways)]))
    rates = rates_for(setting)
    unit = replace(rates, gemm=replace(rates.gemm, value=1e12), hbm=replace(rates.hbm, value=1e30))
    return RingMatmul(layout, unit, np.array([hop_s]))


def test_a_hop_that_outlasts_its_product_is_exposed_by_the_difference():
    # 8192 / 8 = 1024 rows and 10^9 / 2048 elements: 2 x 1024 x 488281.25 = 10^9 FLOP a piece, 1 ms
    elements = np.array([1e9 / 2048])
    assert ring_of("one-way", hop_s=5e-3).extra_seconds(elements, sums=False)[0] == pytest.approx(7 * 4e-3)
    # two-way: 4 rounds, the first beside one product and three beside two
    assert ring_of("two-way", hop_s=5e-3).extra_seconds(elements, sums=False)[0] == pytest.approx(4e-3 + 3 * 3e-3)


def exposed(ways, *, hop_s, sums, **ring):
    """Extra time without what the smallest hop costs too: kernels' floors and passes over memory."""
    elements = np.array([1e9 / 2048])
    longer, shortest = (ring_of(ways, hop_s=hop, **ring).extra_seconds(elements, sums=sums)[0] for hop in (hop_s, 1e-12))
    return longer - shortest


def test_one_permute_at_a_time_exposes_the_rows_that_travel_back():
    # a product of 1 ms. Rows: 4 rounds as on the torus, and the 3 hops the other way; sums: 7 hops, each beside a product
    assert exposed("two-way", hop_s=5e-3, sums=False, machine="dgx-h100") == pytest.approx(4e-3 + 3 * 3e-3 + 3 * 5e-3)
    assert exposed("two-way", hop_s=5e-3, sums=True, machine="dgx-h100") == pytest.approx(7 * 4e-3)
    assert exposed("one-way", hop_s=5e-3, sums=False, machine="dgx-h100") == pytest.approx(7 * 4e-3)


@pytest.mark.parametrize(("machine", "hops"), [("tpu-v5e-8", 0), ("dgx-h100", 1)])
def test_one_permute_at_a_time_lets_rows_and_the_cotangent_wait_for_each_other(machine, hops):
    short, long = (ring_of("one-way", hop_s=hop_s, machine=machine).again[0] for hop_s in (1e-4, 2e-4))
    assert long - short == pytest.approx(hops * 1e-4, abs=1e-9)  # products of milliseconds hide all others


def test_a_hop_that_its_product_hides_costs_nothing():
    for ways in ("one-way", "two-way"):
        assert ring_of(ways, hop_s=0.9e-3).extra_seconds(np.array([1e9 / 2048]), sums=False)[0] == pytest.approx(0.0)


def test_two_ranks_have_one_hop_whichever_way():
    both = [ring_of(ways, hop_s=9e-3, tensor=2).extra_seconds(np.array([1e6]), sums=True)[0] for ways in ("one-way", "two-way")]
    assert both[0] == both[1] > 0


def test_without_a_tensor_axis_the_knob_changes_nothing():
    steps = [Strategy(mesh=Mesh(fsdp=8), collective_matmul=ways) for ways in COLLECTIVE_MATMULS]
    spec = hardware("tpu-v5e-8")
    setting = Setting(model("llama3-8b"), spec, Workload(seq_len=8192, global_batch=8), spec.usable_bytes)
    assert len(set(estimate(setting, StrategyTable.from_strategies(steps)).step_s.tolist())) == 1


@pytest.mark.parametrize("machine", ["tpu-v5e-8", "gb200-nvl72", "dgx-h100"])
def test_long_rows_gain_and_both_ways_at_once_on_a_torus(machine):
    steps = [Strategy(mesh=Mesh(tensor=8), collective_matmul=ways) for ways in COLLECTIVE_MATMULS]
    priced = estimate(setting_of(machine, seq=65536), StrategyTable.from_strategies(steps))
    off, one, two = priced.time_s["comm_tensor"]
    assert two < off
    if machine == "tpu-v5e-8":
        assert two < one
    else:  # on a TPU an all-gather drives more links than one way round a ring
        assert one < min(two, off)
    assert np.ptp(priced.total_bytes) == 0
