"""Windows inside documents: pairs and blocks counted one by one, as the step's own kernel walks; bytes; every scheme priced."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_laws_documents import packed, table
from test_laws_windows import SEQ, laid_out, seconds, windowed

from cost_models.attention.work import ring_steps
from cost_models.collectives.step import collectives
from cost_models.compute.flops import attention_flop_per_sequence, full_attention_flop, model_flop
from cost_models.estimate import estimate
from cost_models.inputs.layout import Layout
from cost_models.masks.documents import document_pairs
from cost_models.masks.window_documents import Runs, visited_window_keys, window_document_keys
from cost_models.rates.published import rates_of
from lcplan.catalog import hardware
from lcplan.spec.windows import WindowPattern, halo_pieces
from lcplan.strategy import SCHEMES
from strategies.kernels.blockwise import BlockwiseKernel
from strategies.kernels.interface import Segments


@given(st.integers(1, 120), st.integers(1, 130), st.integers(1, 130))
def test_pairs_are_those_that_both_masks_leave(seq_len, document_len, window):
    """But for half of each document's diagonal, up to a window's length."""
    tokens = np.arange(seq_len)
    ids, ago = tokens // document_len, tokens[:, None] - tokens
    kept = (ago >= 0) & (ago < window) & (ids[:, None] == ids)
    halves = np.minimum(window, np.bincount(ids)).sum() / 2
    assert document_pairs(seq_len, document_len=document_len, window=window) == kept.sum() - halves


def visited(run, runs, *, window, document_len):
    """Queries times keys of the tiles that the step's kernel visits, of one run and the halo that lies before it."""
    halo = min(runs.halo, run * runs.length)
    ids = jnp.arange(run * runs.length - halo, (run + 1) * runs.length)[None] // document_len
    segments = Segments(ids[:, halo:], ids)
    tiles = BlockwiseKernel(*runs.largest, window)._tiles(runs.length, runs.length + halo, mask="causal", segments=segments)
    spans = [tiles.keys_seen(jnp.array(i), runs.length + halo) for i in range(runs.length // tiles.query)]
    return sum(max(0, int(end) - int(first)) for first, end in spans) * tiles.query * tiles.key


@pytest.mark.parametrize("document_len", [300, 1024, 1500, 10**6])
@pytest.mark.parametrize("window", [1, 200, 1100])
@pytest.mark.parametrize("largest", [(128, 256), (256, 128)])
def test_blocks_are_those_that_the_kernel_visits(largest, window, document_len):
    halo = sum(halo_pieces(window, chunk=512, chunks=5))
    runs = Runs(5, 512, halo, largest)
    keys = visited_window_keys(runs, window=window, document_len=document_len)
    for run in range(5):
        assert keys[run] * 512 == visited(run, runs, window=window, document_len=document_len)


@given(st.integers(1, 700), st.integers(1, 700), st.sampled_from([(128, 128), (64, 256)]))
def test_no_fewer_keys_than_pairs_and_no_more_than_either_mask_alone(window, document_len, largest):
    runs = Runs(4, 256, sum(halo_pieces(window, chunk=256, chunks=4)), largest)
    keys = visited_window_keys(runs, window=window, document_len=document_len)
    assert keys.mean() * 1024 >= document_pairs(1024, document_len=document_len, window=window)
    assert (keys <= visited_window_keys(runs, window=window, document_len=1024)).all()
    assert (keys >= 1).all()


def on_host(setting):
    return replace(setting, hardware=hardware("cpu-host"))


def test_a_host_computes_fewer_blocks_and_a_gpu_no_fewer():
    host, rack = on_host(windowed()), windowed()
    assert seconds(packed(rack, 1024)) == seconds(rack)
    lengths = [seconds(packed(host, 2**power)) for power in range(8, 17)]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1] / 4


def test_the_slowest_rank_sets_the_pace_and_a_host_shares_its_cores():
    # documents of 3 chunks: every third rank begins one, and has no use for its halo
    layout = laid_out(packed(on_host(windowed(1024)), 3 * 8192))
    slowest, mean = (window_document_keys(layout, mean=flag)[0] for flag in (False, True))
    assert mean < slowest
    assert slowest == window_document_keys(laid_out(packed(on_host(windowed(1024)), SEQ)), mean=False)[0]


@pytest.mark.parametrize(("scheme", "ulysses"), [("ring-zigzag", 1), ("ulysses-ring", 2)])
def test_a_rank_of_two_halves_computes_the_mean_of_both(scheme, ulysses):
    # 8 ranks or groups hold halves of 128 tokens, a document each. The first half has no halo and one block of 128 keys; all
    # others have 128 tokens before them, and one block of 256
    setting = packed(on_host(windowed(64, seq_len=2048)), 128)
    one = table(scheme, 8 * ulysses, ulysses=ulysses)
    slowest, mean = (window_document_keys(Layout(setting, one), mean=flag)[0] for flag in (False, True))
    assert (slowest, mean) == (256, ((128 + 256) / 2 + 7 * 256) / 8)


def test_model_flop_is_of_both_masks_and_full_attention_of_neither():
    setting = packed(windowed(), 8192)
    layers, width = setting.model.layers, setting.model.heads * setting.model.head_dim
    pairs = 8 * (4096 * 8192 - 4096**2 / 2)  # eight documents a sequence
    assert attention_flop_per_sequence(setting.model, SEQ, document_len=8192) == pytest.approx(12 * layers * width * pairs)
    assert model_flop(setting) < min(model_flop(windowed()), model_flop(packed(windowed(SEQ), 8192)))
    assert full_attention_flop(setting) == full_attention_flop(windowed())


TURNS = WindowPattern(windowed=1, full=1)


@pytest.mark.parametrize("machine", ["gb200-nvl72", "tpu-v5p-64", "cpu-host"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_is_priced_and_moves_what_windows_move_and_ids(scheme, machine):
    setting = replace(windowed(2048, window_pattern=TURNS), hardware=hardware(machine))
    one = table(scheme, 8, ulysses=4 if scheme == "ulysses-ring" else 1, microbatches=8)
    plain, short = (collectives(which, one.strategy(0)) for which in (setting, packed(setting, 8192)))
    assert [use for use in short if use.purpose != "documents"] == list(plain)
    assert [(use.bytes, use.calls) for use in short if use.purpose == "documents"] == [(4 * SEQ, 8)]
    priced = [estimate(which, one) for which in (setting, packed(setting, 8192))]
    assert priced[1].step_s[0] <= priced[0].step_s[0] * 1.001
    if machine != "gb200-nvl72":
        assert priced[1].total_bytes[0] == pytest.approx(priced[0].total_bytes[0], rel=0.001)


def test_a_bias_is_of_a_run_and_its_halo():
    """cuDNN takes zeros for the halo's queries, so the bias is square: 2 (8192 + 4096)^2 bytes a sequence."""
    plain, short = (estimate(which, table("ring", 8, microbatches=8)) for which in (windowed(), packed(windowed(), 1024)))
    attention = short.total_bytes[0] - plain.total_bytes[0]
    ids = 4 * SEQ + 4 * 8 * SEQ / 8  # of one microbatch everywhere, and of the batch here
    assert 0 < attention <= 2 * 12288**2 + ids


def test_backward_is_counted_alike():
    layout, rates = laid_out(packed(on_host(windowed()), 512)), rates_of(hardware("cpu-host"))
    forward, backward = (ring_steps(layout, rates, backward=flag).total_s[0] for flag in (False, True))
    assert forward < backward < 4 * forward
