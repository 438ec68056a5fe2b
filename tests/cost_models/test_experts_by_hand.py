"""Rows, buffers and work of a small mixture, by hand: 4 experts of 16 features, 2 a token, 256 tokens of D 8."""

from dataclasses import replace

import pytest
from hand_cases import MIXTURE, RATES, layout, rate, times

from cost_models.collectives.experts import expert_terms
from cost_models.experts.buffers import BLOCK_ROWS, IMBALANCE, TILE_ROWS, ExpertLayout
from cost_models.experts.work import expert_copy_bytes, expert_product_seconds, one_hot_seconds, row_move_seconds
from cost_models.memory.experts import ExpertBackward

LONG = {"seq_len": 1024, "global_batch": 4}
"""4096 tokens, 2048 on each of two expert ranks."""


def near(value):
    return pytest.approx([value], rel=1e-9)


def mixture(**fields):
    return layout(spec=MIXTURE, **fields)


def part(**fields):
    return ExpertLayout(mixture(**fields))


def terms(**fields):
    found = expert_terms(mixture(**fields))
    return {(term.purpose, term.op): (float(term.bytes[0]), float(term.calls[0])) for term in found if term.calls[0] > 0}


def test_constants_are_those_of_their_sources():
    assert (BLOCK_ROWS, TILE_ROWS, IMBALANCE) == (1024.0, 512.0, 1.2)


def test_rows_of_a_rank():
    # 128 tokens of each of two ranks send 256 rows; the worst case is all 2 x 128 tokens with 2 rows each
    found = part(expert=2, moe_dispatch="dropless", moe_capacity_percent=0)
    assert (found.own, found.assigned, found.capacity) == (near(2), near(256), near(512))
    assert part(expert=2, moe_dispatch="dropless", moe_capacity_percent=150).capacity == near(384)
    assert part(expert=2, moe_dispatch="dropless", moe_capacity_percent=1).capacity == near(3)
    assert part(moe_dispatch="dropless").capacity == near(512)  # one rank: what its tokens send


def test_rows_of_a_capacity():
    # 256 rows over 4 experts are 64; 200 % is 128 of each rank to each expert; 0 % is every token
    assert part(expert=2, moe_dispatch="capacity", moe_capacity_percent=200).expert_rows == near(128)
    assert part(expert=2, moe_dispatch="capacity", moe_capacity_percent=1).expert_rows == near(1)
    assert part(expert=2, moe_dispatch="capacity", moe_capacity_percent=0).expert_rows == near(128)
    assert part(expert=2, moe_dispatch="capacity", moe_capacity_percent=100).capacity == near(4 * 64)


def test_rows_that_are_multiplied():
    # 2048 tokens a rank send 4096 rows, 1.2 times as many on the busiest rank; half a block of 1024 for each of two experts
    found = part(expert=2, moe_dispatch="dropless", moe_capacity_percent=0, workload=LONG)
    assert found.busiest == near(1.2 * 4096)
    assert found.multiplied == near(1.2 * 4096 + 2 * 512)
    assert found.rows == near(8192 + 1024)
    # one rank has the mean; a TPU starts a tile of 512 again for every expert but the first
    assert part(moe_dispatch="dropless", workload=LONG).busiest == near(8192)
    tpu = part(machine="tpu-v5p-64", moe_dispatch="dropless", workload=LONG)
    assert tpu.multiplied == near(8192 + 3 * 512)
    assert part(expert=2, moe_dispatch="capacity", moe_capacity_percent=100, workload=LONG).multiplied == near(4 * 1024)


def test_hosts_exchange_an_even_share_of_each_pair():
    # half of what a rank can receive for each of two pairs
    found = part(machine="cpu-host", expert=2, moe_dispatch="dropless", moe_capacity_percent=150)
    assert (found.pair_rows, found.capacity) == (near(192), near(384))
    assert part(machine="cpu-host", moe_dispatch="dropless").capacity == near(512)


def test_products_of_rows_with_their_experts():
    # 2 FLOP x 3 products x (4915.2 + 1024) rows x 8 x 16; at slow memory 2 bytes x 3 x 2 experts x 128 elements, and fp32 sums
    # read and written once a block of 1024
    fields = {"expert": 2, "moe_dispatch": "dropless", "moe_capacity_percent": 0, "workload": LONG}
    rows = 1.2 * 4096 + 1024
    assert expert_product_seconds(mixture(**fields), RATES, products=3.0) == near(2 * 3 * rows * 128 / 1e6)
    slow = replace(RATES, hbm=rate(1e1))
    assert expert_product_seconds(mixture(**fields), slow, products=3.0) == near(2 * 3 * 2 * 128 / 1e1)
    sums = 3 * 2 * 4 * rows / 1024 * 128
    assert expert_product_seconds(mixture(**fields), slow, products=6.0, sums=3.0) == near((2 * 6 * 2 * 128 + sums) / 1e1)


def test_copies_that_sort_rows():
    # forward 4 passes over 256 rows that are sent and one over 512 of the buffer, backward 4 of each; 16 bytes a row
    fields = {"expert": 2, "moe_dispatch": "dropless", "moe_capacity_percent": 0}
    assert expert_copy_bytes(mixture(**fields), "forward") == near(16 * (4 * 256 + 512))
    assert expert_copy_bytes(mixture(**fields), "backward") == near(16 * (4 * 256 + 4 * 512))


def test_one_hot_masks_and_rows_one_by_one():
    masks = {"moe_dispatch": "capacity", "moe_capacity_percent": 100, "program": {"expert_copies": "one-hot"}}
    # 2 FLOP x 2 products x 64 tokens of a sequence x 512 rows x 8
    assert one_hot_seconds(mixture(**masks), RATES, products=2.0) == near(2 * 2 * 64 * 512 * 8 / 1e6)
    assert one_hot_seconds(mixture(moe_dispatch="capacity"), RATES, products=2.0) == near(0)
    moved = mixture(machine="tpu-v5p-64", moe_dispatch="dropless")
    assert row_move_seconds(moved) == near(2 * 512 * moved.setting.constants.tpu_row_s)
    assert row_move_seconds(mixture(moe_dispatch="dropless")) == near(0)


def test_products_of_a_layer_with_experts():
    # attention's 384 elements and the router's 32; three products of 512 rows, and half a block of 1024 for each of 4 experts
    found = times(spec=MIXTURE, moe_dispatch="dropless")
    rows = 512 + 4 * 512
    dense = 2 * 256 * (384 + 32)
    assert found.layer_forward_gemm == near((dense + 2 * 3 * rows * 128) / 1e6)
    assert found.layer_backward_gemm == near(2 * (dense + 2 * 3 * rows * 128) / 1e6)


def test_collectives_of_each_dispatch():
    counts, passes = 4 * 2 * 4, 2
    rows = terms(expert=2, moe_dispatch="dropless", moe_capacity_percent=0)
    # the buffer of 512 rows and a block's 512 spare ones (no more than it can receive)
    assert rows["expert-rows", "ragged-all-to-all"] == (16 * (512 + 512), 5 * passes)
    assert rows["expert-row-weights", "ragged-all-to-all"] == (4 * (512 + 512), 3 * passes)
    assert rows["expert-counts", "all-gather"] == (counts, 2 * passes)
    even = terms(expert=2, moe_dispatch="capacity", moe_capacity_percent=200)
    assert even["expert-rows", "all-to-all"] == (16 * 512, 5 * passes)
    assert even["expert-row-weights", "all-to-all"] == (4 * 512, 3 * passes)
    gathered = terms(expert=2, moe_dispatch="gather")
    assert gathered["expert-rows", "all-gather"] == (16 * 256, 3 * passes)
    assert gathered["expert-rows", "reduce-scatter"] == (16 * 256, 2 * passes)
    assert gathered["expert-choices", "all-gather"] == (4 * 2 * 256, 4 * passes)
    assert gathered["expert-choices", "reduce-scatter"] == (4 * 2 * 256, passes)


def test_a_tpu_moves_a_rows_weight_as_128_lanes():
    rows = terms(machine="tpu-v5p-64", expert=2, moe_dispatch="dropless", moe_capacity_percent=0)
    assert rows["expert-row-weights", "ragged-all-to-all"][0] == 4 * 128 * 512


def test_collectives_of_the_experts_matrices_and_the_router():
    # a rank's two experts: 2 x 3 x 128 elements over fsdp; the router's 32 over everything
    found = terms(expert=2, fsdp=2, moe_dispatch="gather")
    assert found["expert-matrices", "all-gather"] == (2 * 768, 2 * 2)
    assert found["expert-matrices", "reduce-scatter"] == (4 * 768, 2)
    assert found["router", "all-gather"] == (2 * 32, 2 * 2)
    once = terms(expert=2, fsdp=2, moe_dispatch="gather", program={"weights_gathered": "once"})
    assert once["expert-matrices", "all-gather"] == (2 * 768, 2)


def test_the_working_set_of_experts_backward():
    # dropless on two ranks: 1024 rows of 16 bytes, as many of 32; 256 sent; two normed streams, three of the stream, queries
    fields = {"expert": 2, "moe_capacity_percent": 0, "remat": "full"}
    received, wide, stream, queries = 1024 * 16, 1024 * 32, 2048, 4096
    rest = 2 * stream + 3 * stream + 2 * queries
    found = ExpertBackward(mixture(moe_dispatch="dropless", **fields))
    assert (found.received, found.wide) == (near(received), near(wide))
    assert found.feed_forward == near(2 * received + 3 * wide + max(wide, 256 * 16) + rest)
    assert found.stream_products == near(3 * received + rest)
    # a capacity of 128 rows for each expert and no spare ones: six wide tensors; 3.5 of rows and two wide ones
    received, wide = 512 * 16, 512 * 32
    even = ExpertBackward(mixture(moe_dispatch="capacity", **{**fields, "moe_capacity_percent": 200}))
    assert even.feed_forward == near(2 * received + 6 * wide + rest)
    assert even.stream_products == near(3.5 * received + 2 * wide + rest)
    # tensor 2 gathers the cotangent
    split = ExpertBackward(mixture(tensor=2, moe_dispatch="capacity", **{**fields, "moe_capacity_percent": 200, "expert": 1}))
    assert split._gathered == near(3 * 4096)


def test_masks_of_a_capacity_take_products_of_their_own():
    masks = {"moe_dispatch": "capacity", "moe_capacity_percent": 100, "program": {"expert_copies": "one-hot"}}
    with_masks, without = (times(spec=MIXTURE, **{**masks, **more}) for more in ({}, {"program": {}}))
    # 64 tokens of a sequence x 512 rows x 8: two products forward, three backward, one repeated
    mask = 2 * 64 * 512 * 8 / 1e6
    assert with_masks.layer_forward_gemm - without.layer_forward_gemm == near(2 * mask)
    assert with_masks.layer_backward_gemm - without.layer_backward_gemm == near(3 * mask)
    assert with_masks.layer_again_gemm - without.layer_again_gemm == near(mask)


def test_products_of_experts_that_are_repeated():
    # full: attention's 384 elements, the router's 32, gate and up of 512 rows and half a block of 1024 for each of 4 experts
    found = times(spec=MIXTURE, moe_dispatch="dropless", remat="full")
    rows = 512 + 4 * 512
    assert found.layer_again_gemm == near((2 * 256 * (384 + 32) + 2 * 2 * rows * 128) / 1e6)
    kept = times(spec=MIXTURE, moe_dispatch="dropless", remat="save-all")
    assert kept.layer_again_gemm == near(2 * 256 * 32 / 1e6)
