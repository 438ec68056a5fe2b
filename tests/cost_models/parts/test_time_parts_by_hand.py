"""Every part of a step's time, worked by hand at 1e6 FLOP/s, 1e6 bytes/s of memory and 1e3 bytes/s of links."""

import pytest
from hand_cases import LINK, MIXTURE, RATES, layout, rate, times

from cost_models.parts.time import STEP_TIME

FLOOR_S = 3e-6


def near(value):
    return pytest.approx([value], rel=1e-9)


def test_gemm_is_three_products_of_every_matrix():
    # forward 2 x 256 tokens x 768 elements = 393216 FLOP, backward twice that, two layers
    assert times().gemm == near(2 * 3 * 0.393216)
    # memory at 1e3 bytes/s: 768 elements of 2 bytes for each of three products
    assert times(rates={"hbm": rate(1e3)}).gemm == near(2 * 3 * 2 * 768 / 1e3)
    # tensor 2 has half the columns, two microbatches half the tokens twice
    assert times(tensor=2, microbatches=2).gemm == near(3 * 0.393216)


def test_attention_is_two_products_forward_and_five_backward():
    # 4 FLOP x 256 queries x 32 keys (half of 64) x 16 features = 524288; backward 2.5 times; two layers
    assert times(remat="save-all").attention == near(2 * 3.5 * 0.524288)
    half = {"attention_backward": rate(0.5e6)}
    assert times(rates=half).attention == near(2 * (1 + 2.5 * 2) * 0.524288)


@pytest.mark.parametrize(
    ("scheme", "later"),
    [("ring", 2.0), ("ring-zigzag", 1.0), ("all-gather", 1.0)],
)
def test_attention_of_a_ring_is_its_own_chunk_and_one_later_step(scheme, later):
    # 128 queries x 16 keys x 16 features x 4 = 131072 FLOP on the own chunk; a whole chunk is twice that
    assert times(context=2, scheme=scheme).attention == near(2 * 3.5 * 0.131072 * (1 + later))


def test_attention_of_exchanged_heads_has_all_tokens_and_half_of_the_heads():
    assert times(context=2, scheme="ulysses").attention == near(3.5 * 0.524288)


def test_hbm_is_passes_over_the_stream_and_the_widths():
    # forward: 9 x 256 x 8 of the stream, 2 x (256 x (16 + 8) + 1.5 x 256 x 16) of the widths, 2 bytes each: 86016
    # backward: 15 and 4: 159744
    assert times(remat="save-all").hbm == near(2 * (0.086016 + 0.159744))
    # a ring of two merges one later step: 6 passes of 2 bytes over 128 x 16 features, in both passes
    merged = 2 * 6 * 128 * 16
    assert times(context=2).hbm == near(2 * (0.043008 + 0.079872 + 2 * merged / 1e6))
    # eager operations move 3.5 times as much
    assert times(program={"elementwise": "eager"}).hbm == near(2 * 3.5 * (0.086016 + 0.159744))
    # norms of what a layer adds: 4 passes forward and 6 backward
    post = layout().setting.model.model_copy(update={"post_norms": True})
    assert times(spec=post).hbm == near(2 * (0.086016 + 0.159744 + 10 * 2 * 256 * 8 / 1e6))


def test_hbm_of_fast_memory_is_ten_kernels_of_three_microseconds():
    assert times(rates={"hbm": rate(1e15)}).hbm == near(2 * 2 * 10 * FLOOR_S)


def test_hbm_of_a_host_copies_what_is_kept():
    # its activations are fp32 (4 bytes) in memory; kept with remat full: the stream of 256 x 8 at 2 bytes, 4 passes
    spread = times(machine="cpu-host").layout.setting.hardware.domain_size
    kept = 4 * 2 * 2 * 256 * 8
    assert times(machine="cpu-host").hbm == near((2 * (0.086016 + 0.159744) + kept / 1e6) / spread)


def test_recompute_is_what_the_policy_does_not_keep():
    # full: all products but down, 640 elements; attention; memory-bound work
    assert times(remat="full").recompute == near(2 * (2 * 256 * 640 / 1e6 + 0.524288 + 0.086016))
    # save-attention: no attention
    assert times(remat="save-attention").recompute == near(2 * (2 * 256 * 640 / 1e6 + 0.086016))
    # save-except-mlp: gate and up, 256 elements
    assert times(remat="save-except-mlp").recompute == near(2 * (2 * 256 * 256 / 1e6 + 0.086016))
    assert times(remat="save-all").recompute == near(0.0)


def test_loss_is_three_products_of_the_head_six_passes_over_the_logits_and_its_gradient():
    # 3 x 2 x 256 tokens x 256 elements; fp32 logits 4 x 256 x 32 bytes six times; 8 bytes an element of the head a chunk
    products = 3 * 2 * 256 * 256
    assert times(loss_chunk_tokens=256).loss == near((products + 6 * 4 * 256 * 32 + 8 * 256) / 1e6)
    assert times(loss_chunk_tokens=64).loss == near((products + 6 * 4 * 256 * 32 + 4 * 8 * 256) / 1e6)


def test_optimizer_is_32_bytes_a_parameter_and_12_a_sum():
    # fp32 weight read and written, gradient read, two fp32 moments read and written: 8 + 4 + 4 + 16 bytes
    assert times().optimizer == near(32 * 2088 / 1e6)
    assert times(moments_dtype="bf16").optimizer == near(24 * 2088 / 1e6)
    # two microbatches: two sums read two arrays and write one; fsdp 2 halves everything
    assert times(microbatches=2).optimizer == near((32 + 2 * 12) * 2088 / 1e6)
    assert times(fsdp=2).optimizer == near(32 * 2088 / 2 / 1e6)


def test_comm_fsdp_is_what_products_do_not_hide():
    # half of 2 x 768 bytes travels: 0.768 s a gather, of which query's sixth is exposed and the rest hides behind
    # 2 x 128 x 768 FLOP and 43008 bytes; fp32 scatters take 1.536 s and hide behind the backward products
    gather = 0.768 / 6 + max(0.768 * 5 / 6 - (0.196608 + 0.043008), 0)
    scatter = 1.536 / 6 + max(1.536 * 5 / 6 - 2 * 0.196608, 0)
    # tables: two gathers of 2 x 256 bytes, two scatters of 4 x 256
    tables = 2 * (0.256 + 0.512)
    assert times(fsdp=2).comm_fsdp == near(2 * (2 * gather + scatter) + tables)
    # fast links: the first matrix and the tables are exposed
    fast = {"collectives": {op: _faster(op, 1e6) for op in RATES.collectives}}
    assert times(fsdp=2, rates=fast).comm_fsdp == near((2 * (2 * 0.768 + 1.536) / 6 + tables) / 1e3)


def _faster(op, bytes_per_s):
    return type(RATES.collectives[op])(0.0, 0.0, bytes_per_s, True, "a test")


def test_comm_tensor_is_the_stream_and_the_loss():
    # half of 2 x 256 x 8 bytes: 2.048 s; 6 gathers and 5 scatters a layer and one each of the embedding: 24 calls
    # loss: the chunk's stream gathered and scattered, an all-reduce of 4 and one of 8 bytes a token
    loss = 2 * 2.048 + (4 + 8) * 256 / LINK
    assert times(tensor=2, loss_chunk_tokens=256).comm_tensor == near(24 * 2.048 + loss)
    # attention's output is kept: its scatter is not repeated
    assert times(tensor=2, remat="save-dots", loss_chunk_tokens=256).comm_tensor == near(22 * 2.048 + loss)


def test_comm_tensor_beside_products_is_what_these_leave():
    # forward 4 gathers and scatters a layer with the repeated ones; products of 256 tokens with half of the columns
    found = times(tensor=2, remat="save-all", program={"stream": "beside-products"}, loss_chunk_tokens=256)
    forward, backward = found._stream_calls
    assert forward == near(8 * 2.048)
    assert found.stream_forward == near(8 * 2.048 - 2 * 0.196608)
    assert found.stream_backward == near(float(backward[0]) - 2 * 0.196608)
    slow = times(tensor=2, remat="save-all", program={"stream": "beside-products"}, rates={"gemm": rate(1e3)})
    assert slow.stream_forward == near(8 * 2.048 / 2)  # hidden but for one chunk of two


def test_comm_context_of_a_ring_is_its_hops_beyond_the_kernels():
    # a hop moves keys and values of 128 tokens: 2 x 2 x 128 x 8 bytes, 4.096 s; a later step takes 0.262144 s forward and
    # 0.65536 s backward. A layer hops forward and again in the repeated pass; the last of these is the backward pass's.
    forward, backward = 4.096 - 0.262144, 4.096 - 2.5 * 0.262144
    # gradients make two hops, one with the other rank's share and one home, both in bf16; keys and values leave no time of
    # the kernel for them
    assert times(context=2, scheme="ring").comm_context == near(2 * (forward + backward) + 2 * 2 * 4.096)


def test_comm_context_of_other_schemes_is_exposed_in_full():
    # all-gather: half of 2 x 2 x 256 x 8 bytes twice a layer, gradients in fp32 scattered once
    assert times(context=2, scheme="all-gather").comm_context == near(2 * (2 * 4.096 + 8.192))
    # ulysses: half of 2 x 128 x 16 bytes 6 times a layer; keys and values, 2 heads of which each rank needs the one: 3 times
    query, pair = 0.5 * 2 * 128 * 16 / LINK, 0.5 * 2 * 2 * 128 * 8 * 2 / LINK
    assert times(context=2, scheme="ulysses").comm_context == near(2 * (6 * query + 3 * pair))


def test_comm_data_is_gradients_vectors_and_two_scalars():
    # an all-reduce over two moves its operand once: 4 bytes of 2048 elements of matrices, of 40 of vectors, and 2 scalars
    assert times(data=2).comm_data == near((4 * 2048 + 4 * 40 + 2 * 4) / LINK)
    assert times(data=2, program={"pure_bf16": True}).comm_data == near((2 * 2048 + 4 * 40 + 2 * 4) / LINK)


def test_comm_data_behind_the_backward_pass_is_at_least_one_layers_bucket():
    behind = {"program": {"data_gradients": "behind-backward"}, "data": 2}
    rest = (4 * 40 + 2 * 4) / LINK
    one = times(**behind)
    # t - b (1 - 1 / 2) with t 8.192 s and b two layers' backward passes
    assert one.comm_data == near(8.192 - float(2 * one.layer_backward[0]) / 2 + rest)
    assert times(**behind, rates={"gemm": rate(1e3)}).comm_data == near(8.192 / 2 + rest)


def test_comm_expert_of_a_capacity_is_dispatch_and_combine():
    # expert 2, 128 tokens a rank, 2 of 4 experts each: 256 rows; 200 %: 128 rows to each of 4 experts, 512 rows of 16 bytes
    # half travels: 4.096 s a call; out forward and again, home, and both gradients' ways: 5 calls a layer
    # a row's weight of 4 bytes travels 3 times a layer
    found = times(spec=MIXTURE, expert=2, moe_dispatch="capacity", moe_capacity_percent=200)
    assert found.comm_expert == near(2 * (5 * 512 * 16 + 3 * 512 * 4) / 2 / LINK)


def test_comm_expert_of_gathered_rows():
    # all 256 tokens of both ranks: 4096 bytes, gathered forward and again and for the gradients, scattered twice;
    # choices: 4 bytes for each of 2 x 256 rows, four gathers and a scatter
    found = times(spec=MIXTURE, expert=2, moe_dispatch="gather")
    assert found.comm_expert == near(2 * (5 * 4096 + 5 * 4 * 2 * 256) / 2 / LINK)


def test_comm_expert_of_dropless_rows_moves_what_is_routed():
    # 256 rows a rank, 1.2 times as many on the busiest; 16 bytes out twice, home, and two gradients; weights of 4 bytes 3 times
    # counts: 4 bytes x 2 ranks x 4 experts, gathered twice
    found = times(spec=MIXTURE, expert=2, moe_dispatch="dropless", moe_capacity_percent=0)
    rows = 1.2 * 256
    assert found.comm_expert == near(2 * (5 * rows * 16 + 3 * rows * 4 + 2 * 32) / 2 / LINK)


def test_contention_is_24_multiprocessors_while_collectives_are_hidden():
    # of 132 on an H100; a permute by NCCL holds 32 while it runs beside a later step, which is shorter than its hop
    hidden = float((times(fsdp=2)._of("tables", "weights") - times(fsdp=2).comm_fsdp)[0])
    assert times(fsdp=2).contention == near(24 / 132 * hidden)
    assert times(fsdp=1).contention == near(0.0)
    ring = times(context=2, scheme="ring", backend="nccl", rates={"gemm": rate(1e15)})
    hops = 2 * (2 + 2)  # a layer's keys and values, and gradients
    weights = float((ring._of("tables", "weights") - ring.comm_fsdp)[0])
    assert ring.contention == near(24 / 132 * weights + hops * 32 / 132 * 0.262144)


def test_overhead_is_one_kernel_a_ring_step_and_pass():
    # two layers; forward, repeated and backward pass: 3; a ring of two has two steps in each
    assert times().overhead == near(2 * 3 * FLOOR_S)
    assert times(remat="save-all").overhead == near(2 * 2 * FLOOR_S)
    assert times(context=2, scheme="ring").overhead == near(2 * 2 * 3 * FLOOR_S)


def test_overhead_of_an_eager_host_is_what_launches_take_beyond_the_work():
    # two layers of (1 + 1 + 2) forward passes of 7 products, attention with 3 copies, 2 norms, 2 rotations, 2 sums and a gate
    fast = {"gemm": rate(1e15), "hbm": rate(1e15), "attention_forward": rate(1e15), "attention_backward": rate(1e15)}
    found = times(program={"dispatch": "eager"}, rates=fast)
    launch = 18 * found.layout.setting.constants.launch_host_s
    busy = float((found.layer_forward + found.layer_backward)[0])
    assert found.overhead == near(2 * 3 * FLOOR_S + 2 * (4 * launch - busy))


def test_a_device_alone_waits_for_nobody():
    for part in STEP_TIME:
        if part.kind == "communication":
            assert getattr(times(), part.key) == near(0.0), part.key
