"""Laws of a mixture of experts: rows, bytes, FLOPs and memory by hand, and what must hold at the limits."""

import numpy as np
import pytest
from expert_layouts import ATTENTION, EXPERT, ROUTER, TOY, layout, maxtext, part, priced, terms

from cost_models.compute.flops import matrix_flop_per_token
from cost_models.experts.buffers import BLOCK_ROWS, IMBALANCE, TILE_ROWS
from cost_models.experts.work import expert_copy_bytes, one_hot_seconds, row_move_seconds
from cost_models.memory.experts import ExpertBackward
from cost_models.rates.published import rates_for
from cost_models.time.device_work import StepWork
from lcplan.catalog import model
from lcplan.strategy import Mesh, Strategy


def test_parameters_by_hand():
    assert TOY.layer_matrix_parameters == ATTENTION + 4 * EXPERT + ROUTER
    assert TOY.active_layer_matrix_parameters == ATTENTION + 2 * EXPERT + ROUTER
    assert TOY.parameters == 2 * (ATTENTION + 4 * EXPERT + ROUTER + 16) + 2 * 128 + 8
    assert TOY.active_parameters == TOY.parameters - 2 * 2 * EXPERT


def test_flop_are_those_of_what_a_token_meets():
    assert matrix_flop_per_token(TOY) == 6 * (2 * (ATTENTION + 2 * EXPERT + ROUTER) + 128)


def test_rows_by_hand():
    # one sequence of 4096 tokens on each of 8 ranks, two experts a token: 8192 rows; 200 %: 16384; and a block
    found = part(fsdp=2, expert=4)
    assert found.assigned[0] == 8192
    assert found.capacity[0] == 16384
    assert found.rows[0] == 16384 + BLOCK_ROWS
    assert found.busiest[0] == pytest.approx(IMBALANCE * 8192)
    assert part(fsdp=2, expert=4, moe_capacity_percent=100).busiest[0] == 8192  # what has no room is dropped


def test_the_worst_case_is_every_token_on_one_rank():
    # 4 ranks of 4096 tokens; a rank has one expert, so that a token sends it one row: 16384 rows
    assert part(fsdp=2, expert=4, moe_capacity_percent=0).capacity[0] == 4 * 4096
    assert part(fsdp=4, expert=2, moe_capacity_percent=0).capacity[0] == 2 * 4096 * 2


def test_one_rank_of_experts_has_room_for_what_it_sends_and_moves_nothing():
    assert part(fsdp=8, moe_capacity_percent=400).capacity[0] == 8192
    assert not {purpose for _, purpose in terms(fsdp=8)} & {"expert-rows", "expert-counts", "expert-row-weights"}


def test_capacity_rounds_up_for_each_expert():
    # 8192 rows over 4 experts: 2048; 125 %: 2560 for each of 4 experts
    found = part(fsdp=2, expert=4, moe_dispatch="capacity", moe_capacity_percent=125)
    assert found.expert_rows[0] == 2560
    assert found.rows[0] == found.busiest[0] == 4 * 2560


def test_a_layer_by_hand_while_its_experts_run_backward():
    # U = 4096 tokens, R = 16384 + 1024 rows: R D = 278528 bytes, R F = 557056; sent 8192 rows of 16 bytes, less than R F
    layer = ExpertBackward(layout(fsdp=2, expert=4))
    streams = (2 + 3 + 2) * 65536  # two normed, three of the stream's own, and queries and output of as many features
    assert layer.feed_forward[0] == 2 * 278528 + 4 * 557056 + streams
    # both gradients of the rows and their sum, when those of gate and up (D F of one expert, fp32) are made
    assert layer.stream_products[0] == 3 * 278528 + streams
    assert layer.products_unreduced[0] - layer.unreduced[0] == 4 * 2 * 8 * 16


def test_narrow_experts_have_the_cotangents_twice_before_they_have_gates_cotangent():
    # F = 4: R F = 139264, and the 8192 rows of D that are sent are 131072; F = 2: they are more than R F
    streams = (2 + 3 + 2) * 65536
    for width, most in ((4, 139264), (2, 131072)):
        narrow = TOY.model_copy(update={"experts": TOY.experts.model_copy(update={"d_ff": width})})
        layer = ExpertBackward(layout(spec=narrow, fsdp=2, expert=4))
        assert layer.feed_forward[0] == 2 * 278528 + 3 * 17408 * 2 * width + most + streams


def test_dropless_bytes_by_hand():
    found = terms(fsdp=2, expert=4)
    rows = found["ragged-all-to-all", "expert-rows"]
    assert rows.bytes[0] == 2 * 8 * (16384 + 1024)
    assert rows.moved is not None
    assert rows.moved[0] == pytest.approx(2 * 8 * IMBALANCE * 8192)
    assert rows.calls[0] == 5 * 2
    assert found["all-gather", "expert-counts"].bytes[0] == 4 * 4 * 4
    assert terms(fsdp=2, expert=4, remat="save-all")["ragged-all-to-all", "expert-rows"].calls[0] == 4 * 2


def test_a_rows_weight_fills_a_register_on_tpu():
    gpu, tpu = (
        terms(fsdp=2, expert=4, machine=name)["ragged-all-to-all", "expert-row-weights"]
        for name in ("gb200-nvl72", "tpu-v5p-64")
    )
    assert gpu.bytes[0] == 4 * (16384 + 1024)
    assert tpu.bytes[0] == 4 * 128 * 16384


def test_the_experts_matrices_are_gathered_over_fsdp_and_context_alone():
    found = terms(fsdp=2, expert=2, tensor=2, context=2, seq=8192)
    assert found["all-gather", "expert-matrices"].axes == ("fsdp", "context")
    assert found["all-gather", "expert-matrices"].bytes[0] == 2 * (4 / 2) * EXPERT / 2
    assert found["all-gather", "weights"].axes == ("fsdp", "context", "expert")
    assert found["all-gather", "router"].bytes[0] == 2 * ROUTER


def test_gather_moves_what_the_axis_holds():
    found = terms(fsdp=2, expert=4, moe_dispatch="gather")
    assert found["all-gather", "expert-rows"].bytes[0] == found["reduce-scatter", "expert-rows"].bytes[0] == 2 * 8 * 4 * 4096


def test_an_even_exchange_stands_in_on_the_host():
    found = terms(fsdp=2, expert=4, machine="cpu-host")
    assert found["all-to-all", "expert-rows"].bytes[0] == 2 * 8 * 16384


def test_state_divides_by_every_axis_that_splits_it_whosever_it_is():
    meshes = [Mesh(fsdp=32), Mesh(fsdp=8, expert=4), Mesh(context=4, expert=8), Mesh(tensor=4, expert=8)]
    found = priced(*(Strategy(mesh=mesh) for mesh in meshes))
    assert np.allclose(found.memory_bytes["params"], found.memory_bytes["params"][0], rtol=1e-12)


def test_gathered_matrices_shrink_with_the_expert_axis():
    found = priced(Strategy(mesh=Mesh(context=32)), Strategy(mesh=Mesh(context=4, expert=8)))
    assert found.memory_bytes["gathered_weights"][1] < found.memory_bytes["gathered_weights"][0] / 5


def test_model_flop_rate_counts_active_parameters():
    found = priced(Strategy(mesh=Mesh(context=8, expert=8), microbatches=4))
    work = 32 * 131072 * matrix_flop_per_token(model("qwen3-30b-a3b"))
    assert work / (found.step_s[0] * 64) < found.tflop_per_s_per_device[0] * 1e12
    assert found.mfu_ratio[0] < 1


def test_dispatches_are_priced_apart():
    mesh = Mesh(context=8, expert=8)
    found = priced(*(Strategy(mesh=mesh, microbatches=4, moe_dispatch=name) for name in ("dropless", "capacity", "gather")))
    assert (found.time_s["comm_expert"] > 0).all()
    assert len(set(found.step_s)) == 3
    alone = priced(Strategy(mesh=Mesh(fsdp=4, context=16), microbatches=8))
    assert alone.time_s["comm_expert"][0] == 0


def test_rows_of_a_table_are_priced_as_alone():
    strategies = [
        Strategy(mesh=Mesh(context=8, expert=8), microbatches=4),
        Strategy(mesh=Mesh(context=8, tensor=2, expert=4), microbatches=8, moe_dispatch="capacity", moe_capacity_percent=125),
        Strategy(mesh=Mesh(context=64), microbatches=32, remat="save-all", moe_dispatch="gather"),
    ]
    together = priced(*strategies)
    for index, one in enumerate(strategies):
        alone = priced(one)
        assert together.step_s[index] == pytest.approx(alone.step_s[0], rel=1e-12)
        assert together.total_bytes[index] == pytest.approx(alone.total_bytes[0], rel=1e-12)


def test_a_grouped_product_on_tpu_begins_a_tile_again_for_every_expert_but_the_first():
    # 8 sequences of 4096 tokens, 2 experts a token, 4 experts on the device
    rows = part(machine="tpu-v6e-8", backend="ici")
    assert float(rows.multiplied[0]) == 8 * 4096 * 2 + 3 * TILE_ROWS
    assert float(part().multiplied[0]) == 8 * 4096 * 2 + 4 * BLOCK_ROWS / 2


def test_a_capacity_by_masks_multiplies_every_token_with_every_row_of_its_sequence():
    capacity = maxtext(moe_dispatch="capacity", moe_capacity_percent=125)
    rows = 8 * 4096 * 2 * 1.25  # room of all sequences
    rate = rates_for(capacity.setting).gemm.value
    one = one_hot_seconds(capacity, rates_for(capacity.setting), products=1.0)
    assert float(one[0]) == pytest.approx(2 * 4096 * rows * 8 / rate)
    assert float(expert_copy_bytes(capacity, "forward")[0]) == 0.0
    dropless = maxtext()
    assert float(one_hot_seconds(dropless, rates_for(dropless.setting), products=1.0)[0]) == 0.0
    assert float(expert_copy_bytes(dropless, "forward")[0]) > 0.0


def test_weights_after_the_last_product_need_it_again():
    again = [
        StepWork(x, rates_for(x.setting)).layer_again_gemm for x in (layout(machine="tpu-v6e-256", backend="ici"), maxtext())
    ]
    own = StepWork(maxtext(), rates_for(maxtext().setting))
    assert float(again[1][0] - again[0][0]) == pytest.approx(float(own._expert_products(1.0)[0]))
    kept = maxtext(remat="save-all")
    assert float(StepWork(kept, rates_for(kept.setting)).layer_again_gemm[0]) == pytest.approx(
        float(own._gemm(own._router, 1.0)[0])
    )


def test_a_tpu_moves_rows_one_by_one():
    # 8 sequences of 4096 tokens, 2 experts a token: to the expert and back
    tpu = layout(machine="tpu-v6e-8", backend="ici")
    assert float(row_move_seconds(tpu)[0]) == pytest.approx(2 * 8 * 4096 * 2 * tpu.setting.constants.tpu_row_s)
    biased = TOY.model_copy(update={"experts": TOY.experts.model_copy(update={"bias": True})})
    assert float(row_move_seconds(layout(spec=biased, machine="tpu-v6e-8", backend="ici"))[0]) == pytest.approx(
        2.5 * float(row_move_seconds(tpu)[0])
    )
    masked = maxtext(moe_dispatch="capacity", moe_capacity_percent=125)
    assert row_move_seconds(masked)[0] == row_move_seconds(layout())[0] == 0.0
