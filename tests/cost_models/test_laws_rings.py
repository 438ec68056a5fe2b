"""Rings between nodes: messages that share a kernel, rings in two levels, backward passes that send queries."""

import numpy as np
import pytest

from cost_models.collectives.network import Network
from cost_models.collectives.ring_hops import exposed_ring_seconds, is_hop
from cost_models.collectives.step import terms_of
from cost_models.inputs.layout import Layout
from cost_models.inputs.program import PROGRAMS, STEP
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.rates.published import rates_for
from cost_models.schemes.ring import ring_window
from lcplan.catalog import hardware, model
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy

TOKENS, WIDTH = 4096, 4096
PAIR = 2 * TOKENS * WIDTH
"""Keys and values of a rank: llama2-7b, one sequence of 128k over 32."""


def rings(program, *, context=32):
    """Layout, and hops of one step by purpose and level."""
    work = Workload(seq_len=TOKENS * context, global_batch=1)
    machine = hardware("hgx-a800x4")
    setting = Setting(model("llama2-7b"), machine, work, machine.usable_bytes, program=program)
    strategy = Strategy(mesh=Mesh(context=context), remat="save-attention")
    layout = Layout(setting, StrategyTable.from_strategies([strategy]))
    return layout, [term for term in terms_of(layout) if is_hop(term)]


def calls_per_layer(terms, layout, **chosen):
    return sum(
        float(term.calls[0]) / layout.setting.model.layers
        for term in terms
        if all(getattr(term, name) == value for name, value in chosen.items())
    )


def test_a_double_ring_hops_inside_nodes_and_once_a_round_between_them():
    layout, terms = rings(PROGRAMS["loongtrain"])
    assert float(ring_window(layout)[0]) == 8
    # four rounds of 7 hops inside a node, 3 hops between nodes; forward and backward; gradients go home at both levels
    assert calls_per_layer(terms, layout, purpose="kv-ring", subgroup="window") == 2 * 4 * 7
    assert calls_per_layer(terms, layout, purpose="kv-ring", subgroup="windows") == 2 * 3
    assert calls_per_layer(terms, layout, purpose="kv-gradients", subgroup="window") == 4 * 7 + 1
    assert calls_per_layer(terms, layout, purpose="kv-gradients", subgroup="windows") == 3 + 1
    between = next(term for term in terms if term.subgroup == "windows")
    assert float(between.steps[0]) == 8  # hidden by a whole round


def test_a_double_ring_inside_one_node_is_a_plain_ring():
    layout, terms = rings(PROGRAMS["loongtrain"], context=8)
    assert calls_per_layer(terms, layout, purpose="kv-ring", subgroup="window") == 2 * 7
    assert calls_per_layer(terms, layout, subgroup="windows") == 0


def test_burst_sends_queries_and_cotangents_and_gradients_of_queries_alone():
    _, terms = rings(PROGRAMS["burst"])
    sizes = {(term.purpose, bool(np.any(term.backward))): float(term.bytes[0]) for term in terms if term.subgroup == "window"}
    # without grouped heads: forward keys and values, backward queries and cotangents in bf16, half a pair in fp32
    assert sizes == {("kv-ring", False): 2 * PAIR, ("kv-ring", True): 2 * PAIR, ("kv-gradients", True): 4 * PAIR / 2}


def test_transformer_engine_sends_gradients_as_it_sends_keys():
    for name, width in (("torch-fsdp", 4), ("megatron", 2)):
        _, terms = rings(PROGRAMS[name])
        assert float(next(term for term in terms if term.purpose == "kv-gradients").bytes[0]) == width * PAIR


def test_messages_of_the_backward_pass_share_its_kernel():
    layout, terms = rings(STEP)
    pairs = [(term, np.array([seconds])) for term, seconds in zip(terms, (2.0, 3.0, 3.0), strict=True)]
    layers = layout.setting.model.layers
    forward, backward = exposed_ring_seconds(layout, pairs, forward_s=np.array([1.5]), backward_s=np.array([4.0]))
    assert forward == pytest.approx(31 * 0.5 * layers)
    # 31 times 2 + 3 - 4, and home: lcplan's own step overlaps it with what follows
    assert backward == pytest.approx((31 * 1.0 + 1.0) * layers)
    layout, terms = rings(PROGRAMS["torch-fsdp"])
    pairs = [(term, np.array([seconds])) for term, seconds in zip(terms, (2.0, 3.0, 3.0), strict=True)]
    _, backward = exposed_ring_seconds(layout, pairs, forward_s=np.array([1.5]), backward_s=np.array([4.0]))
    assert backward == pytest.approx((31 * 1.0 + 3.0) * layers)


def test_between_nodes_a_plain_ring_waits_for_one_adapter_and_a_double_ring_uses_all():
    exposed = []
    for name in ("torch-fsdp", "loongtrain", "burst"):
        layout, terms = rings(PROGRAMS[name])
        rates = rates_for(layout.setting)
        network = Network.of(layout, rates)
        pairs = [(term, network.seconds(term)) for term in terms]
        exposed.append(
            float(sum(exposed_ring_seconds(layout, pairs, forward_s=np.array([5e-4]), backward_s=np.array([1.3e-3])))[0])
        )
    assert exposed[0] > 3 * exposed[1] > 3 * exposed[2]
