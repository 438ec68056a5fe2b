"""Attention by scheme: areas by hand, balance, what a ring hides."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.attention.work import causal_imbalance, exposed_hop_seconds, merge_bytes, ring_steps
from cost_models.inputs.layout import Layout
from cost_models.inputs.program import Program
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.rates.published import rates_of
from lcplan.catalog import hardware
from lcplan.spec.workload import Workload
from lcplan.strategy import SCHEME_FACTS, Mesh, Strategy


def flat_rates(setting):
    """Rates whose kernels reach their full rate at once."""
    return replace(rates_of(setting.hardware), forward_half_tokens=0.0, backward_half_tokens=0.0)


def total(setting, scheme, context, *, flat=True, backward=False):
    """Seconds of one pass over one layer; ``flat`` takes the kernels' rate as reached at once."""
    rates = flat_rates(setting) if flat else rates_of(setting.hardware)
    layout = Layout(setting, StrategyTable.from_strategies([Strategy(mesh=Mesh(context=context), scheme=scheme)]))
    return float(ring_steps(layout, rates, backward=backward).total_s[0])


def test_imbalance_by_hand_and_at_its_limits():
    # c = 1: nothing to share; c = 4: (1/2 + 3) / (4 / 2); c to infinity: the last rank does all of its row, twice the mean
    assert causal_imbalance(np.array([1.0, 4.0])).tolist() == [1.0, 1.75]
    assert causal_imbalance(np.array(1e9)) == pytest.approx(2.0)


def test_a_balanced_ring_takes_one_cth_of_one_device(llama):
    alone = total(llama, "ring", 1)
    for scheme in ("ring-zigzag", "all-gather", "ulysses"):
        assert total(llama, scheme, 16) == pytest.approx(alone / 16)


def test_contiguous_chunks_wait_for_the_last_rank(llama):
    assert total(llama, "ring", 16) == pytest.approx(total(llama, "ring", 1) / 16 * 31 / 16)


@pytest.mark.parametrize("program", [Program(), Program(gathered_calls="once")], ids=lambda program: program.gathered_calls)
def test_contiguous_gathers_wait_for_the_last_rank(llama, monkeypatch, program):
    """A toy record that gathers contiguous chunks: (2 x 16 - 1) / 16 of the balanced time, as on a contiguous ring."""
    setting = replace(llama, program=program)
    balanced = total(setting, "all-gather", 16)
    facts = replace(SCHEME_FACTS["all-gather"], balanced=False)
    monkeypatch.setattr("cost_models.inputs.table.SCHEME_FACTS", {**SCHEME_FACTS, "all-gather": facts})
    assert total(setting, "all-gather", 16) == pytest.approx(balanced * 31 / 16)


def test_striped_attention_published_gain_on_8_devices(llama):
    # arXiv:2311.09431: in the limit of attention alone, balanced over contiguous on 8 devices: 15 / 8 = 1.875
    assert total(llama, "ring", 8) / total(llama, "ring-zigzag", 8) == pytest.approx(1.875)


def test_basic_usp_waits_for_its_last_group(llama):
    """2 groups of 4: (2 x 2 - 1) / 2 of the balanced time; USP on 8 A100, 8 heads of 32, 128k: 24.07 ms against 16.81."""
    spec = replace(llama, program=Program(ring_chunks="contiguous"))
    table = StrategyTable.from_strategies([Strategy(mesh=Mesh(context=8), scheme="ulysses-ring", ulysses=4)])
    seconds = [ring_steps(Layout(setting, table), flat_rates(llama), backward=False).total_s[0] for setting in (llama, spec)]
    assert seconds[1] / seconds[0] == pytest.approx(1.5)
    assert seconds[1] / seconds[0] == pytest.approx(24.07 / 16.81, rel=0.05)


def test_one_call_on_all_gathered_keys_takes_the_work_of_its_chunks_and_merges_nothing(llama):
    once = replace(llama, program=Program(gathered_calls="once"))
    table = StrategyTable.from_strategies([Strategy(mesh=Mesh(context=8), scheme="all-gather")])
    chunks, whole = [ring_steps(Layout(s, table), flat_rates(llama), backward=False) for s in (llama, once)]
    assert whole.total_s == pytest.approx(chunks.total_s)
    assert merge_bytes(Layout(once, table), whole)[0] == 0
    # 7 steps, 6 passes of 2 bytes over T / c tokens of 4096 features
    assert merge_bytes(Layout(llama, table), chunks)[0] == 2 * 6 * 7 * llama.workload.tokens / 8 * 4096


@pytest.mark.parametrize("scheme", ["ring", "ring-zigzag", "ulysses"])
def test_unfused_attention_takes_a_ranks_queries_and_all_keys(llama, scheme):
    unfused = replace(llama, program=Program(attention="unfused"))
    assert total(unfused, scheme, 8) == pytest.approx(total(unfused, scheme, 1) / 8)


def test_backward_takes_five_products_for_two(llama):
    rates = rates_of(llama.hardware)
    ratio = rates.attention_forward.value / rates.attention_backward.value
    assert total(llama, "ring", 4, backward=True) == pytest.approx(2.5 * ratio * total(llama, "ring", 4))


def test_products_and_scores_take_turns_on_a_host(llama):
    # 16 sequences x 32 heads x 2^32 / 2 scores x 16 bytes, at the copy rate, and 4 x 128 FLOP each; blocks on the diagonal
    # whole: 2^10 keys more; a tile of 512 sequences and heads is larger than any cache
    machine = hardware("cpu-host")
    host = Setting(llama.model, machine, Workload(seq_len=2**16, global_batch=16), machine.usable_bytes)
    rates, scores = rates_of(machine), 2**15 * (2**16 + 2**10) * 32 * 16
    assert total(host, "ring", 1) == pytest.approx(2 * scores * (16 / rates.hbm.value + 4 * 128 / rates.gemm.value))


def test_host_devices_share_cores_so_a_ring_costs_its_total_work(llama):
    # contiguous: a causal block of l^2 and (c - 1) / 2 whole ones on average; zigzag: the same block and c - 1 halves
    machine = hardware("cpu-host")
    host = Setting(llama.model, machine, Workload(seq_len=2**16, global_batch=16), machine.usable_bytes)
    assert total(host, "ring", 8) == pytest.approx(total(host, "ring-zigzag", 8), rel=0.02)


@given(st.sampled_from([1, 2, 4, 8, 16, 32, 64]), st.sampled_from(["ring", "ring-zigzag"]))
def test_short_chunks_never_run_faster_than_the_flat_rate(llama, context, scheme):
    assert total(llama, scheme, context, flat=False) >= total(llama, scheme, context)


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_hop_costs_what_the_kernel_does_not_hide(step, hop):
    exposed = exposed_hop_seconds(np.array(step), np.array(hop))
    assert step + exposed == pytest.approx(max(step, hop))
