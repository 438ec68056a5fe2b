"""ModelSpec: counts worked by hand, and what is refused."""

import pytest

from lcplan.formats.errors import BadInputError
from lcplan.spec.model import ModelSpec, Rope

SMALL = {"name": "s", "layers": 2, "d_model": 8, "d_ff": 12, "heads": 4, "kv_heads": 2, "head_dim": 4, "vocab": 10}
# one layer's matrices: query 8*4*4 = 128, key and value 2 * 8*2*4 = 128, out 128, gate, up, down 3 * 8*12 = 288
MATRICES = 128 + 128 + 128 + 288


def spec(**changes):
    return ModelSpec.read({**SMALL, **changes}, "small.yaml")


def test_count_by_hand():
    small = spec()
    assert small.layer_matrix_parameters == MATRICES
    assert small.layer_vector_parameters == 2 * 8
    assert small.embedding_parameters == 2 * 10 * 8
    assert small.parameters == 2 * (MATRICES + 16) + 160 + 8
    assert small.active_parameters == small.parameters
    assert small.group == 2


@pytest.mark.parametrize(
    ("change", "more"),
    [
        ({"tied_embeddings": True}, -10 * 8),
        ({"qkv_bias": True}, 2 * (4 + 2 + 2) * 4),
        ({"out_bias": True}, 2 * 8),
        ({"mlp_bias": True}, 2 * (12 + 12 + 8)),
        ({"qk_norm": True}, 2 * (4 + 4)),
        ({"rope": {"theta": 1e6}}, 0),
    ],
)
def test_what_each_option_adds(change, more):
    assert spec(**change).parameters - spec().parameters == more


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kv_heads": 3}, "small.yaml: kv_heads=3 does not divide heads=4"),
        ({"head_dim": 3}, "small.yaml: head_dim=3 is odd; RoPE rotates pairs"),
        ({"layers": 0}, "small.yaml: layers: Input should be greater than 0 (got 0)"),
        ({"layers": True}, "small.yaml: layers: Input should be a valid integer (got True)"),
        ({"d_model": 10**9}, "small.yaml: d_model: Input should be less than or equal to 100000000 (got 1000000000)"),
        ({"vocabulary": 3}, "small.yaml: unknown key 'vocabulary'; did you mean 'vocab'?"),
        ({"rope": {"thetas": 1.0}}, "small.yaml: unknown key 'rope.thetas'; did you mean 'theta'?"),
        (
            {"family": "gpt"},
            "small.yaml: family: Input should be 'llama', 'mistral', 'qwen2', 'qwen3', 'gemma2', 'gemma3', 'mixtral', "
            "'qwen2_moe', 'qwen3_moe', 'gpt_oss', 'deepseek_v2', 'deepseek_v3' or 'llama4' (got 'gpt')",
        ),
    ],
)
def test_what_is_refused(change, message):
    with pytest.raises(BadInputError) as error:
        spec(**change)
    assert str(error.value) == message


def test_round_trip():
    full = spec(rope=Rope(theta=5e5, scaling="yarn", factor=4.0, original_max_position=32768), notes=["a"], sliding_window=64)
    assert ModelSpec.read(full.model_dump(mode="json"), "again") == full


def test_a_plain_feed_forward_has_no_gate():
    sizes = {"name": "g", "layers": 2, "d_model": 8, "d_ff": 32, "heads": 2, "kv_heads": 2, "head_dim": 4, "vocab": 10}
    gated, plain = ModelSpec(**sizes), ModelSpec(**sizes, mlp="plain")
    assert gated.parameters - plain.parameters == 2 * 8 * 32  # one D x F matrix a layer
    assert gated.layer_matrix_parameters - plain.layer_matrix_parameters == 8 * 32
