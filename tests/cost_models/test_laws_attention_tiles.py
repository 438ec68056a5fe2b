"""Tiles of attention: their sizes, the work on the diagonal, the scores that they hold."""

import pytest

from cost_models.attention.work import ring_steps
from cost_models.estimate import estimate
from cost_models.inputs.layout import Layout
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.masks.tiles import causal_block_keys, chunk_tiles, tiles
from cost_models.rates.published import rates_of
from lcplan.catalog import hardware, model
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy


def setting(hw, *, seq=16384, precision="bf16"):
    machine = hardware(hw)
    workload = Workload(seq_len=seq, global_batch=8, precision=precision)
    return Setting(model("llama3-8b" if hw == "tpu-v5p-64" else "llama-tiny"), machine, workload, machine.usable_bytes)


def layout(one, *blocks, **fields):
    mesh = Mesh(context=fields.pop("context", 1))
    strategies = [Strategy(mesh=mesh, attention_block=block, **fields) for block in blocks]
    return Layout(one, StrategyTable.from_strategies(strategies))


def test_sizes_are_the_strategys_the_kernels_or_the_chunks():
    found = layout(setting("cpu-host", seq=4096), 0, 128, 4096, context=4, scheme="ring")
    queries, keys = chunk_tiles(found)
    assert queries.tolist() == [512, 128, 1024]
    assert keys.tolist() == [1024, 256, 1024]


def test_ranks_that_exchange_heads_have_the_whole_sequence_to_cut():
    found = layout(setting("cpu-host", seq=4096), 0, 4096, context=8, scheme="ulysses")
    assert chunk_tiles(found)[0].tolist() == [512, 4096]


def test_sizes_of_the_other_kernels():
    assert [side.tolist() for side in tiles(layout(setting("tpu-v5p-64"), 0, 1024))] == [[512, 1024], [512, 1024]]
    assert [side.tolist() for side in tiles(layout(setting("gb200-nvl72"), 0))] == [[128], [128]]


@pytest.mark.parametrize(("block", "keys"), [(1024.0, 1024.0), (256.0, 640.0)])
def test_blocks_on_the_diagonal_are_whole(block, keys):
    assert causal_block_keys(1024.0, block) == keys


def test_small_tiles_spare_a_host_half_of_a_causal_chunk():
    one = setting("cpu-host", seq=1024, precision="fp32")
    steps = ring_steps(layout(one, 0, 64), rates_of(one.hardware), backward=False)
    assert steps.first_s[1] / steps.first_s[0] == pytest.approx((1024 + 128) / 2048 / 2)  # and it stays in a cache


def test_splash_pays_for_what_its_tiles_add_to_those_it_was_measured_with():
    one = setting("tpu-v5p-64", seq=4096)
    steps = ring_steps(layout(one, 0, 512, 2048), rates_of(one.hardware), backward=False)
    assert steps.first_s[0] == steps.first_s[1]
    assert steps.first_s[2] / steps.first_s[0] == pytest.approx((1 + 2048 / 4096) / (1 + 512 / 4096))


def test_smaller_tiles_hold_fewer_scores():
    one = setting("cpu-host", seq=4096, precision="fp32")
    table = StrategyTable.from_strategies([Strategy(mesh=Mesh(), attention_block=block) for block in (1024, 0, 64)])
    memory = estimate(one, table).total_bytes
    assert memory[0] > memory[1] > memory[2]
