"""Sliding windows in the laws: pairs and tiles counted one by one, halos by hand, and what no window costs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.attention.work import ring_steps
from cost_models.collectives.step import collectives
from cost_models.compute.flops import attention_flop_per_sequence, model_flop
from cost_models.estimate import estimate
from cost_models.inputs.layout import Layout
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.masks.windows import Halo, window_pairs, window_tile_keys
from cost_models.rates.published import rates_of
from lcplan.catalog import hardware, model
from lcplan.spec.windows import WindowPattern, halo_pieces
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy

RACK = hardware("gb200-nvl72")
SEQ = 65536


def windowed(window=4096, *, seq_len=SEQ, **fields):
    """Llama 3 8B with a window in every layer, or as ``fields`` say."""
    spec = model("llama3-8b").model_copy(update={"sliding_window": window, **fields})
    return Setting(spec, RACK, Workload(seq_len=seq_len, global_batch=8), RACK.usable_bytes)


def laid_out(setting, scheme="ring", context=8, **mesh):
    strategy = Strategy(mesh=Mesh(context=context, **mesh), scheme=scheme)
    return Layout(setting, StrategyTable.from_strategies([strategy]))


def seconds(setting, scheme="ring", context=8):
    rates = replace(rates_of(setting.hardware), forward_half_tokens=0.0, backward_half_tokens=0.0)
    return float(ring_steps(laid_out(setting, scheme, context), rates, backward=False).total_s[0])


@given(st.integers(1, 40), st.integers(1, 40))
def test_pairs_are_those_of_the_mask_but_for_half_of_the_diagonal(window, seq_len):
    i, j = np.arange(seq_len)[:, None], np.arange(seq_len)
    counted = ((i >= j) & (i - j < window)).sum()
    assert window_pairs(window, seq_len) == counted - min(window, seq_len) / 2


@given(st.integers(1, 70), st.sampled_from([(4, 8), (8, 8), (8, 4), (2, 16), (16, 2)]))
def test_keys_are_those_of_the_tiles_that_the_mask_touches(window, tile):
    length = 160
    i, j = np.arange(length)[:, None], np.arange(length)
    mask = (i >= j) & (i - j < window)
    queries, keys = tile
    touched = mask.reshape(length // queries, queries, length // keys, keys).any(axis=(1, 3)).sum(axis=1) * keys
    inside = touched[80 // queries :]  # queries whose window lies inside the sequence
    assert float(window_tile_keys(window, queries=queries, keys=keys)) == inside.mean()


@given(st.integers(2, 300000), st.sampled_from([1, 2, 4, 8, 16, 32, 64]))
def test_the_halo_is_the_pieces_that_the_program_exchanges(window, context):
    setting = windowed(window, seq_len=2**18)
    halo, chunk = Halo(laid_out(setting, "ring", context)), 2**18 // context
    pieces = halo_pieces(window, chunk=chunk, chunks=context) if window < 2**18 else ()
    assert int(halo.hops[0]) == len(pieces)
    assert halo.last[0] == (pieces[-1] if pieces else 0)
    assert halo.share[0] == sum(pieces) / chunk


def test_where_a_rank_holds_two_halves_each_has_a_halo():
    halo = Halo(laid_out(windowed(1024), "ring-zigzag"))  # half chunks of 4096
    assert (halo.hops[0], halo.last[0], halo.share[0]) == (1, 1024, 2 * 1024 / 8192)


def test_collectives_of_a_contiguous_ring_are_its_halo_three_times_a_layer():
    # 8192 tokens a chunk; 4096 tokens, keys and values, 8 heads of 128 in bf16: 2 * 2 * 4096 * 1024
    uses = [
        use
        for use in collectives(windowed(), Strategy(mesh=Mesh(context=8), scheme="ring", microbatches=8))
        if "kv" in use.purpose
    ]
    assert [(use.purpose, use.op, use.bytes, use.calls) for use in uses] == [
        ("kv-halo", "collective-permute", 2 * 2 * 4096 * 1024, 3 * 32 * 8)
    ]


def test_a_window_over_several_chunks_brings_whole_ones_and_a_part():
    # 2048 tokens a chunk: 2048 and 2048 of 4095
    uses = [
        use
        for use in collectives(windowed(5000), Strategy(mesh=Mesh(context=32), scheme="ring", microbatches=8))
        if "kv" in use.purpose
    ]
    assert [(use.bytes, use.calls // (32 * 8)) for use in uses] == [(4 * 2048 * 1024, 3 * 2), (4 * 1024 * 1024, 3)]


def test_ulysses_exchanges_heads_as_without_a_window():
    strategy = Strategy(mesh=Mesh(context=8), scheme="ulysses", microbatches=8)
    plain = replace(windowed(), model=model("llama3-8b"))
    assert collectives(windowed(), strategy) == collectives(plain, strategy)


def test_attention_takes_as_long_as_its_tiles():
    alone, ulysses = seconds(windowed(), "ring", 1), seconds(windowed(), "ulysses", 8)
    assert ulysses == pytest.approx(alone / 8)
    # tiles of 128 keys: 33 a query block, but one to 32 of the first 32
    keys = (33 * 512 - 32 * 33 / 2) / 512 * 128
    full = seconds(replace(windowed(), model=model("llama3-8b")), "ring", 1)
    assert alone / full == pytest.approx(keys / (SEQ / 2))


def test_a_ring_on_gpu_has_as_many_queries_as_keys():
    # cuDNN: 8192 + 4096 queries of 33 tiles each, against 33 but for a triangle of a whole sequence
    assert seconds(windowed(), "ring", 8) / seconds(windowed(), "ulysses", 8) == pytest.approx(1.5 * 33 / (33 - 33 / 32))


@pytest.mark.parametrize("scheme", ["ring", "ulysses"])
def test_a_window_as_long_as_the_sequence_is_none(scheme):
    table = StrategyTable.from_strategies([Strategy(mesh=Mesh(context=8), scheme=scheme)])
    plain = replace(windowed(), model=model("llama3-8b"))
    assert estimate(windowed(SEQ), table).row(0) == estimate(plain, table).row(0)
    assert model_flop(windowed(SEQ)) == model_flop(plain)


@given(st.integers(1, SEQ - 1), st.integers(1, SEQ - 1))
def test_more_of_a_window_is_never_less_work(one, other):
    short, long = sorted((one, other))
    assert seconds(windowed(short), "ulysses") <= seconds(windowed(long), "ulysses")
    assert attention_flop_per_sequence(windowed(short).model, SEQ) <= attention_flop_per_sequence(windowed(long).model, SEQ)


def test_layers_in_turn_cost_the_mean_of_both_kinds():
    half = windowed(4096, window_pattern=WindowPattern(windowed=1, full=1))
    kinds = [windowed(), replace(windowed(), model=model("llama3-8b"))]
    flop = [attention_flop_per_sequence(setting.model, SEQ) for setting in (half, *kinds)]
    assert flop[0] == pytest.approx((flop[1] + flop[2]) / 2)
    table = StrategyTable.from_strategies([Strategy(mesh=Mesh(context=8), scheme="ring")])
    priced = [estimate(setting, table) for setting in (half, *kinds)]
    attention = [float(one.time_s["attention"][0]) for one in priced]
    assert attention[0] == pytest.approx((attention[1] + attention[2]) / 2)
    waiting = 4 * half.model.layer_matrix_parameters  # of the turn's other layer
    assert priced[0].total_bytes[0] == pytest.approx(max(one.total_bytes[0] for one in priced[1:]) + waiting, rel=1e-6)


def test_a_turn_on_tpu_begins_with_inputs_and_shards_of_all_its_layers():
    chip = hardware("tpu-v5p-8")
    spec = model("llama3-8b").model_copy(update={"layers": 6, "sliding_window": 1024})
    totals = []
    for changes in ({"sliding_window": None}, {"window_pattern": WindowPattern(windowed=2, full=1)}):
        setting = Setting(spec.model_copy(update=changes), chip, Workload(seq_len=32768, global_batch=4), chip.usable_bytes)
        strategy = Strategy(mesh=Mesh(context=4), backend="ici")
        totals.append(estimate(setting, StrategyTable.from_strategies([strategy])).total_bytes[0])
    # of the turn's two others each: 4 x 8192 tokens of 4096 features, and a quarter of the matrices, in bf16
    waiting = 2 * 2 * (4 * 8192 * 4096 + spec.layer_matrix_parameters / 4)
    assert totals[1] - totals[0] == pytest.approx(waiting, rel=1e-9)


def test_gemma_and_gpt_oss_are_priced():
    for name, mesh in (("gemma-2-9b", Mesh(context=8)), ("gpt-oss-20b", Mesh(context=4, expert=4))):
        setting = Setting(model(name), RACK, Workload(seq_len=SEQ, global_batch=16), RACK.usable_bytes)
        table = StrategyTable.from_strategies([Strategy(mesh=mesh, scheme="ring-zigzag")])
        purposes = {use.purpose for use in collectives(setting, table.strategy(0))}
        assert {"kv-halo", "kv-ring"} <= purposes
        assert 0.1 < estimate(setting, table).mfu_ratio[0] < 0.6
