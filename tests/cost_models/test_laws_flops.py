"""FLOPs in three conventions, by hand and against published counts."""

import pytest

from cost_models.compute.flops import (
    attention_flop_per_sequence,
    full_attention_flop,
    hardware_flop,
    matrix_flop_per_token,
    model_flop,
    recomputed_matrix_parameters,
)
from cost_models.inputs.layout import Layout
from cost_models.inputs.table import StrategyTable
from lcplan.catalog import model
from lcplan.strategy import Mesh, Strategy


def layout(setting, **knobs):
    return Layout(setting, StrategyTable.from_strategies([Strategy(mesh=Mesh(), **knobs)]))


def test_matrices_of_the_toy_by_hand(toy_model):
    # a layer: 64 + 32 + 32 + 64 + 3 x 128 = 576; two layers and the head of 32 x 8: 2 x 576 + 256 = 1408; 6 FLOP each
    assert matrix_flop_per_token(toy_model) == 6 * 1408


def test_attention_of_the_toy_by_hand(toy_model):
    # forward 4 x 8 features x 64^2 = 131072 a layer; with the backward pass x 3, two layers: 786432; causal: half
    assert attention_flop_per_sequence(toy_model, 64, causal=False) == 786432
    assert attention_flop_per_sequence(toy_model, 64) == 393216


def test_a_step_of_the_toy_by_hand(toy):
    # 4 x 64 = 256 tokens x 8448 + 4 sequences x 393216 (or 786432)
    assert model_flop(toy) == 256 * 8448 + 4 * 393216
    assert full_attention_flop(toy) == 256 * 8448 + 4 * 786432


@pytest.mark.parametrize(
    ("remat", "again"),
    [
        ("full", 64 + 64 + 64 + 256),  # q, k and v, o, gate and up; never down
        ("save-attention", 64 + 64 + 64 + 256),  # the kernels are kept, their inputs are not
        ("save-qkv", 64 + 256),
        ("save-except-mlp", 256),
        ("save-all", 0),
    ],
)
def test_products_that_each_policy_repeats(toy, remat, again):
    assert recomputed_matrix_parameters(layout(toy, remat=remat)).tolist() == [again]


def test_hardware_flops_add_the_repeated_forward_work(toy):
    # full: 2 x 256 tokens x 2 layers x 448 and a third of attention's 4 x 393216; none: nothing, as in the loss
    extra = 2 * 256 * 2 * 448 + 4 * 393216 / 3
    assert hardware_flop(layout(toy, remat="full")).tolist() == [model_flop(toy) + extra]
    assert hardware_flop(layout(toy, remat="save-all")).tolist() == [model_flop(toy)]


def test_no_attention_at_length_zero_and_four_times_at_double_length(toy_model):
    assert attention_flop_per_sequence(toy_model, 0) == 0
    assert attention_flop_per_sequence(toy_model, 128) == 4 * attention_flop_per_sequence(toy_model, 64)


def test_published_flop_per_token_of_llama31_8b():
    # AI-Hypercomputer/tpu-recipes, trillium Llama3.1-8B at 8192: 417.4 TFLOP/s at 7207.3 tokens/s a chip, full attention
    llama = model("llama3.1-8b")
    flop = matrix_flop_per_token(llama) + attention_flop_per_sequence(llama, 8192, causal=False) / 8192
    assert flop == pytest.approx(417.4e12 / 7207.3, rel=0.005)
