"""Attention kernels other than fused ones, tiles and windows, by hand; rates and attention of published devices by quotient."""

from dataclasses import replace

import numpy as np
import pytest
from hand_cases import HAND, RATES, layout, rate, times, unmeasured

from cost_models.attention.unfused import unfused_seconds
from cost_models.compute.host_time import eager_attention_seconds
from cost_models.compute.kernels import SCORE_BYTES, head_dim_ratio
from cost_models.estimate import estimate
from cost_models.masks.tiles import CACHED_BYTES, spill_ratio
from cost_models.masks.windows import Halo
from cost_models.rates import published, scaling
from cost_models.time import attention_pass
from lcplan.catalog import hardware


def near(value):
    return pytest.approx([value], rel=1e-9)


@pytest.mark.parametrize(("which", "products", "score_bytes"), [("forward", 2, 13), ("backward", 4, 19), ("again", 1, 11)])
def test_unfused_attention_is_products_and_traffic_of_every_score(which, products, score_bytes):
    found = unfused_seconds(np.array(1000.0), 10.0, which=which, flop_per_s=1e6, hbm_bytes_per_s=1e6)
    assert found == pytest.approx((2 * products * 1000 * 10 + score_bytes * 1000) / 1e6)


def test_unfused_attention_of_a_step_has_all_scores():
    # 256 queries x 64 keys x 2 heads; forward 13 bytes and 2 x 2 x 8 FLOP a score; backward 19 and 2 x 4 x 8; again 11 and 16
    scores = 256 * 64 * 2
    unfused = times(remat="save-all", program={"attention": "unfused"})
    assert unfused.attention == near(2 * scores * (13 + 32 + 19 + 64) / 1e6)
    again = times(remat="save-all", program={"attention": "unfused", "recompute_scores": True})
    assert again.attention == near(2 * scores * (13 + 32 + 19 + 64 + 11 + 16) / 1e6)


def test_blockwise_attention_moves_each_score_through_memory():
    # heads of 4 are no cuDNN's: blocks on the diagonal whole, 64 tokens are one block: 64 keys a query, two heads
    small = HAND.model_copy(update={"head_dim": 4})
    scores = 256 * 64 * 2
    found = times(spec=small, remat="save-all", rates={"attention_forward": rate(1e15), "attention_backward": rate(1e15)})
    assert found.attention == near(2 * scores * (16 + 28) / 1e6)
    assert SCORE_BYTES == {"forward": 16.0, "backward": 28.0}


def test_documents_are_a_bias_of_two_bytes_a_score_to_cudnn():
    fast = {"attention_forward": rate(1e15), "attention_backward": rate(1e15)}
    found = times(remat="save-all", workload={"document_len": 16}, rates=fast)
    assert found.attention == near(2 * 2 * 256 * 32 * 2 * 2 / 1e6)


def test_a_kernel_that_masks_tile_by_tile_computes_the_diagonal_whole():
    # a tile of 16 over 64 tokens: a quarter more, and twice an eighth of a block for the mask
    program = {"attention": "flash", "attention_tile": 16}
    share = layout().setting.constants.tile_mask_share
    assert share == 0.125
    found = times(remat="save-all", program=program)
    assert found.attention == near(2 * 3.5 * 0.524288 * (1 + 16 / 64 + 2 * share))


def test_a_ring_of_windowed_layers_is_one_call_with_its_halo():
    # one rank, a window of 33 tokens on 64 with tiles of 64: the whole causal block
    spec = HAND.model_copy(update={"sliding_window": 129})
    wide = {"spec": spec, "context": 4, "scheme": "ring", "workload": {"seq_len": 1024, "global_batch": 1}}
    halo = Halo(layout(**wide))
    # chunks of 256: one hop, whole tiles of 128 tokens, half a chunk
    assert (halo.hops, halo.last, halo.tokens, halo.share, halo.padded) == (near(1), near(128), near(128), near(0.5), near(1.5))
    far = Halo(layout(**{**wide, "spec": HAND.model_copy(update={"sliding_window": 385})}))
    # 384 tokens before: a whole chunk and half of the next
    assert (far.hops, far.last, far.tokens, far.share) == (near(2), near(128), near(384), near(1.5))
    halves = Halo(layout(**{**wide, "scheme": "ring-zigzag"}))
    assert (halves.chunk, halves.hops, halves.share) == (near(128), near(1), near(1))
    none = Halo(layout(context=4, scheme="ring"))
    assert (none.hops, none.tokens, none.share) == (near(0), near(0), near(0))


def test_one_call_on_gathered_keys_meets_half_of_the_sequence():
    found = times(context=2, scheme="all-gather", program={"gathered_calls": "once"}, remat="save-all")
    assert found.attention == near(3.5 * 0.524288)
    assert found.overhead == near(2 * 2 * 3e-6)


def test_eager_attention_is_calls_of_the_host():
    # one kernel 0.12 ms; a ring of two 2 calls, an exchange of heads 4 more
    chunks, exchange = np.array([1.0, 2.0, 1.0]), np.array([1.0, 1.0, 2.0])
    assert eager_attention_seconds(chunks, exchange, call_s=1.0) == pytest.approx([0.12e-3, 2.0, 5.0])


def test_heads_wider_than_the_matrix_unit_fill_it():
    assert head_dim_ratio(512, 256) == pytest.approx(1.5 / (1 + 0.5 / 4))
    assert head_dim_ratio(128, 256) == pytest.approx(0.5)


def test_caches_hold_eight_mebibytes():
    assert CACHED_BYTES == 8388608


@pytest.mark.parametrize(
    ("name", "key", "quotient"),
    [
        ("SUSTAINED_OF_BEST", None, 0.869729),
        ("GEMM_OF_PEAK", "gpu", 0.698686),
        ("GEMM_OF_PEAK", "tpu", 0.901416),
        ("GEMM_OF_PEAK", "cpu", 1.0),
        ("IN_STEP", "forward", 0.9),
        ("IN_STEP", "backward", 1.0),
        ("ATTENTION_OF_PEAK", "forward", 0.59976),
        ("ATTENTION_OF_PEAK", "backward", 0.5108),
        ("HALF_TOKENS", "forward", 500.0),
        ("HALF_TOKENS", "backward", 570.0),
        ("HBM_OF_PEAK", None, 0.784208),
        ("LINK_OF_PEAK", None, 0.666667),
        ("PERMUTE_OF_LINK", None, 0.746667),
        ("PERMUTE_LATENCY_S", None, 12e-6),
        ("KERNEL_FLOOR_S", None, 3e-6),
        ("TRITON_OF_FLASH2", None, 0.555556),
        ("POWER_EXPONENT", None, 0.666667),
    ],
)
def test_shares_of_datasheets_are_the_quotients_of_their_sources(name, key, quotient):
    value = getattr(scaling if name == "POWER_EXPONENT" else published, name)
    assert (value if key is None else value[key]) == pytest.approx(quotient, rel=2e-6)


def test_an_unmeasured_device_has_shares_of_its_datasheet():
    for kind, share in (("gpu", 0.698686), ("tpu", 0.901416), ("cpu", 1.0)):
        assert unmeasured(kind).gemm.value == pytest.approx(share * 1e15, rel=2e-6)
    found = unmeasured("gpu")
    assert found.attention_forward.value == pytest.approx(0.59976e15)
    assert found.attention_backward.value == pytest.approx(0.5108e15)
    assert (found.forward_half_tokens, found.backward_half_tokens) == (500.0, 570.0)
    assert found.collectives["collective-permute"].oneway_bytes_per_s == pytest.approx(450e9 * 672 / 900)
    assert found.collectives["collective-permute"].latency_s == 12e-6
    assert found.collectives["all-gather"].oneway_bytes_per_s == pytest.approx(450e9 * 2 / 3)
    assert not any(source.startswith("measured") for source in found.basis.values())


def test_a_measured_device_says_so():
    basis = published.rates_of(hardware("dgx-h100")).basis
    assert {name for name, source in basis.items() if source.startswith("measured")} >= {"gemm", "hbm", "all-gather"}


@pytest.mark.parametrize(
    ("purpose", "forward", "backward"),
    [("ulysses-query", 1 / 3, 2 / 3), ("kv-halo", 1 / 3, 2 / 3), ("kv-ring", 1 / 2, 1 / 2), ("kv-gather", 1 / 2, 1 / 2)],
)
def test_passes_share_a_schemes_calls(purpose, forward, backward):
    assert attention_pass._shares(purpose) == (pytest.approx(forward), pytest.approx(backward))


def test_attention_alone_has_its_gathers_and_gradients(monkeypatch):
    monkeypatch.setattr(attention_pass, "rates_for", lambda setting: RATES)
    found = layout(context=2, scheme="all-gather")
    forward, backward = attention_pass.attention_pass_seconds(found.setting, found.table)
    # two layers of 2 x 0.131072 s, a merge of 6 x 2 bytes of 128 x 16; a gather of 4.096 s each way, gradients of 8.192 s
    assert forward == near(2 * (0.262144 + 0.024576 + 4.096))
    assert backward == near(2 * (2.5 * 0.262144 + 0.024576 + 4.096 + 8.192))


def test_blockwise_attention_in_tiles_that_no_cache_holds_is_slower():
    # a host: 4 bytes x 4 sequences x 2 heads x 64 x 64 scores fit in 8 MiB; 2048 sequences do not
    spread = times(machine="cpu-host").layout.setting.hardware.domain_size
    small = times(machine="cpu-host", remat="save-all").attention[0]
    scores = 256 * 64 * 2
    assert small * spread == pytest.approx(2 * (3.5 * 4 * 8 * scores + 44 * scores) / 1e6)
    many = times(machine="cpu-host", remat="save-all", workload={"global_batch": 4 * 512}).attention[0]
    # 2048 sequences x 2 heads x 64 x 64 scores of 4 bytes
    assert many == pytest.approx(512 * small * float(spill_ratio(np.array(4.0 * 4096 * 4096))))


def test_splash_tiles_other_than_512_cost_what_they_add():
    # a head of 128, one sequence of 4096 tokens; a tile of 1024 is computed whole on the diagonal: (1 + 1/4) / (1 + 1/8)
    spec = HAND.model_copy(update={"heads": 1, "kv_heads": 1, "head_dim": 128})
    fields = {"spec": spec, "machine": "tpu-v5p-64", "workload": {"seq_len": 4096, "global_batch": 1}, "remat": "save-all"}
    usual, wide, short = (times(**fields, attention_block=block).attention[0] for block in (0, 1024, 256))
    assert usual == pytest.approx(2 * 3.5 * 4 * 4096 * 2048 * 128 / 1e6)
    assert wide / usual == pytest.approx(1.25 / 1.125)
    assert short / usual == pytest.approx(1.0625 / 1.125)


def test_documents_leave_out_chunks_that_share_none():
    # ring of four, documents of one rank's chunk: no later step has work; documents as long as the sequence: all have
    fields = {"context": 4, "scheme": "ring", "remat": "save-all"}
    fast = {"attention_forward": rate(1e6), "hbm": rate(1e15)}
    alone = times(**fields, workload={"document_len": 16}, rates=fast).forward_attention
    whole = times(**fields, workload={"document_len": 64}, rates=fast).forward_attention
    assert alone.total_s == near(4 * 64 * 8 * 16 / 1e6)
    assert whole.total_s == near(4 * 64 * (8 + 3 * 16) * 16 / 1e6)


def test_documents_in_blockwise_attention_are_blocks():
    # heads of 4, 64 tokens and documents of 16: one block of 64 tokens holds all; on two ranks each has its own
    small = HAND.model_copy(update={"head_dim": 4})
    fields = {"spec": small, "remat": "save-all", "workload": {"document_len": 16}}
    fast = {"attention_forward": rate(1e15), "attention_backward": rate(1e15)}
    assert times(**fields, rates=fast).attention == near(2 * 256 * 64 * 2 * 44 / 1e6)
    assert times(**fields, context=2, scheme="ring", rates=fast).attention == near(2 * 128 * 32 * 2 * 44 / 1e6)
    # one document: the last of two ranks meets the other's 32 tokens too
    one = {**fields, "workload": {"document_len": 64}}
    assert times(**one, context=2, scheme="ring", rates=fast).attention == near(2 * 128 * 64 * 2 * 44 / 1e6)


def test_fp32_activations_have_four_bytes():
    found = layout(workload={"precision": "fp32"})
    assert (found.activation_bytes, found.held_bytes) == (4.0, 4.0)


def test_rates_of_an_estimate_are_work_over_time():
    found = layout(data=2)
    priced = estimate(found.setting, found.table)
    # 6 FLOP x 256 tokens x (1536 + 256) elements, attention 3 x 4 x 16 x 64^2 / 2 a sequence and layer
    work = 6 * 256 * 1792 + 4 * 2 * 3 * 4 * 16 * 64**2 / 2
    per_device = work / priced.step_s / 2
    assert priced.tflop_per_s_per_device == pytest.approx(per_device / 1e12)
    assert priced.mfu_ratio == pytest.approx(per_device / found.setting.hardware.device.peak_flop_per_s.value)
    assert priced.tokens_per_s == pytest.approx(256 / priced.step_s)
    assert replace(RATES).gemm.value == 1e6


def test_fused_attention_moves_no_scores():
    fast = {"attention_forward": rate(1e15), "attention_backward": rate(1e15)}
    assert times(remat="save-all", rates=fast).attention == near(2 * 3.5 * 524288 / 1e15)
