"""Where groups lie, and what a collective over them takes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.collectives.group_span import span_of, torus_links
from cost_models.collectives.network import Network, moved_share
from cost_models.collectives.step import Term
from cost_models.inputs.layout import Layout
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.rates.published import CollectiveRate, Rates, rates_of
from lcplan.catalog import hardware
from lcplan.strategy import AXIS_ORDERS, Mesh, Strategy


def placed(setting, *strategies):
    return Layout(setting, StrategyTable.from_strategies(list(strategies)))


def test_the_innermost_axis_is_on_neighbours(toy):
    # data 2, fsdp 2, context 2, tensor 2 on nodes of 8: tensor stride 1, context 2, fsdp 4, data 8 (it alone crosses)
    layout = placed(toy, Strategy(mesh=Mesh(data=2, fsdp=2, context=2, tensor=2)))
    spans = {axis: span_of(layout, (axis,)) for axis in ("data", "fsdp", "context", "tensor")}
    assert {axis: span.stride[0] for axis, span in spans.items()} == {"data": 8, "fsdp": 4, "context": 2, "tensor": 1}
    assert {axis: span.crosses[0] for axis, span in spans.items()} == {"data": 2, "fsdp": 1, "context": 1, "tensor": 1}


def test_the_other_order_puts_context_outside_fsdp(toy):
    layout = placed(toy, Strategy(mesh=Mesh(fsdp=4, context=4), axis_order=AXIS_ORDERS[1]))
    assert span_of(layout, ("context",)).stride[0] == 4
    assert span_of(layout, ("context",)).crosses[0] == 2
    assert span_of(layout, ("fsdp",)).crosses[0] == 1


def test_a_joint_group_over_both_nodes(toy):
    span = span_of(placed(toy, Strategy(mesh=Mesh(fsdp=4, context=4))), ("fsdp", "context"))
    assert (span.members[0], span.inner[0], span.crosses[0]) == (16, 8, 2)


@pytest.mark.parametrize(
    ("op", "moved"),
    [("all-gather", 75), ("reduce-scatter", 75), ("all-to-all", 75), ("all-reduce", 150), ("collective-permute", 100)],
)
def test_bytes_that_one_of_four_devices_sends_for_an_operand_of_100(op, moved):
    assert 100 * moved_share(op, np.array(4.0)) == moved


@given(st.sampled_from(["all-gather", "all-reduce", "all-to-all"]), st.integers(1, 512))
def test_a_group_of_one_moves_nothing_and_more_members_move_more(op, members):
    assert moved_share(op, np.array(1.0)) == 0
    assert moved_share(op, np.array(members + 1.0)) > moved_share(op, np.array(float(members)))


def flat_rates(rates: Rates) -> Rates:
    rate = CollectiveRate(latency_s=1e-5, member_latency_s=1e-6, oneway_bytes_per_s=1e11, measured=True, source="round")
    return Rates(**{**rates.__dict__, "collectives": dict.fromkeys(rates.collectives, rate)})


def seconds(setting, strategy, *, op, axes, size):
    layout = placed(setting, strategy)
    term = Term(op, axes, "test", np.array([float(size)]), np.array([1.0]), "exposed")
    return float(Network.of(layout, flat_rates(rates_of(setting.hardware))).seconds(term)[0])


def test_within_a_node_by_hand(toy):
    # 10 us + 3 us + 4e8 x 3/4 / 1e11
    time = seconds(toy, Strategy(mesh=Mesh(fsdp=4)), op="all-gather", axes=("fsdp",), size=4e8)
    assert time == pytest.approx(13e-6 + 3e-3)


def test_across_nodes_the_network_ports_of_a_node_share_the_ring(toy):
    # 16 members, 8 a node: 4e8 x 15/16 over 8 ports of 50 GB/s is 0.94 ms, less than 3.75 ms inside the node
    network = toy.hardware.network_link
    joint = seconds(toy, Strategy(mesh=Mesh(fsdp=16)), op="all-gather", axes=("fsdp",), size=4e8)
    assert joint == pytest.approx(25e-6 + network.latency_s.value + 3.75e-3)
    # data 2 outside fsdp 8: each pair has one port: 4e8 / 2 / 50e9 = 4 ms
    pair = seconds(toy, Strategy(mesh=Mesh(data=2, fsdp=8)), op="all-gather", axes=("data",), size=4e8)
    assert pair == pytest.approx(11e-6 + network.latency_s.value + 4e-3)


def test_a_ring_hop_between_nodes_has_one_port(toy):
    hop = seconds(toy, Strategy(mesh=Mesh(context=16)), op="collective-permute", axes=("context",), size=1e8)
    assert hop == pytest.approx(25e-6 + toy.hardware.network_link.latency_s.value + 2e-3)


def test_links_of_a_torus_group():
    machine = hardware("tpu-v5p-64")  # 2 x 4 x 4 chips without wraparound below a cube
    assert machine.torus == (2, 4, 4)
    setting = Setting.__new__(Setting)
    object.__setattr__(setting, "hardware", machine)
    layout = placed(setting, Strategy(mesh=Mesh(context=8, tensor=4)), Strategy(mesh=Mesh(context=32)))
    assert torus_links(machine, span_of(layout, ("tensor",))).tolist() == [1, 1]
    assert torus_links(machine, span_of(layout, ("context",))).tolist() == [2, 3]


def test_a_wrapped_dim_gives_both_directions():
    machine = hardware("tpu-v5p-64").model_copy(update={"torus_wrap": (True, True, True)})
    setting = Setting.__new__(Setting)
    object.__setattr__(setting, "hardware", machine)
    layout = placed(setting, Strategy(mesh=Mesh(tensor=4, context=8)))
    assert torus_links(machine, span_of(layout, ("tensor",))).tolist() == [2]


def test_published_all_gather_of_8_h100(toy):
    # nccl-tests by aiconfigurator: 512 MiB gathered over 8 H100 at 308 GB/s bus bandwidth: 1.525 ms; the fit is 15 % there
    layout = placed(toy, Strategy(mesh=Mesh(fsdp=8)))
    term = Term("all-gather", ("fsdp",), "test", np.array([2.0**29]), np.array([1.0]), "exposed")
    time = Network.of(layout, rates_of(toy.hardware)).seconds(term)
    assert time[0] == pytest.approx(2**29 * 7 / 8 / 308e9, rel=0.2)
