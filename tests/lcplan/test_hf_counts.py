"""A config.json gives exact counts, rope and window; class defaults as in transformers."""

import pytest
from hf_configs_made import ENDS, LAYER, config, problems, read


class TestCounts:
    def test_a_plain_llama(self):
        spec = read(config())
        assert spec.parameters == 3 * LAYER + ENDS
        assert (spec.family, spec.head_dim, spec.tied_embeddings, spec.notes) == ("llama", 8, False, ())
        assert spec.source == "Hugging Face config of model_type 'llama'"

    @pytest.mark.parametrize(
        ("changes", "more"),
        [
            ({"tie_word_embeddings": True}, -1000 * 64),
            ({"num_key_value_heads": None}, 3 * 2 * 64 * 32),
            ({"head_dim": 16}, 3 * (2 * 64 * 64 + 2 * 64 * 32)),
            ({"head_dim": None}, 0),
            ({"attention_bias": True}, 3 * (64 + 32 + 32 + 64)),
            ({"mlp_bias": True}, 3 * (160 + 160 + 64)),
            ({"attention_bias": False, "mlp_bias": False, "pretraining_tp": 4, "use_cache": False}, 0),
        ],
    )
    def test_options_of_llama(self, changes, more):
        assert read(config(**changes)).parameters == 3 * LAYER + ENDS + more

    def test_a_missing_key_for_key_value_heads_means_as_many_as_heads_in_llama(self):
        assert read(config(drop=["num_key_value_heads"])).kv_heads == 8

    def test_a_missing_key_for_key_value_heads_means_eight_in_mistral(self):
        spec = read(config("mistral", drop=["num_key_value_heads"], num_attention_heads=16))
        assert spec.kv_heads == 8
        assert "num_key_value_heads is absent: the class's default 8" in spec.notes

    def test_qwen2_always_has_biases_on_query_key_value_and_only_there(self):
        spec = read(config("qwen2", attention_bias=False))
        assert (spec.qkv_bias, spec.out_bias, spec.mlp_bias) == (True, False, False)
        assert spec.parameters == 3 * (LAYER + 64 + 32 + 32) + ENDS

    def test_qwen3_has_norms_of_query_and_key_heads_and_heads_of_128(self):
        spec = read(config("qwen3"))
        assert (spec.qk_norm, spec.head_dim, spec.qkv_bias) == (True, 128, False)
        wide = 2 * 64 * 8 * 128 + 2 * 64 * 4 * 128 + 3 * 64 * 160 + 2 * 64 + 2 * 128
        assert spec.parameters == 3 * wide + ENDS

    def test_qwen3_with_attention_bias_has_it_on_out_too(self):
        spec = read(config("qwen3", attention_bias=True))
        assert (spec.qkv_bias, spec.out_bias) == (True, True)

    def test_phi3_stores_fused_matrices_of_the_same_numbers(self):
        assert read(config("phi3")).parameters == 3 * LAYER + ENDS

    @pytest.mark.parametrize("model_type", ["internlm", "internlm2"])
    def test_internlm_has_biases_unless_it_says_not(self, model_type):
        assert read(config(model_type)).parameters == 3 * (LAYER + 64 + 32 + 32 + 64) + ENDS
        assert read(config(model_type, bias=False)).parameters == 3 * LAYER + ENDS

    def test_yi_is_a_llama(self):
        assert read(config("Yi")).parameters == 3 * LAYER + ENDS
        assert read(config("Yi")).rope.theta == 5e6

    def test_without_model_type_the_class_decides(self):
        assert read(config(drop=["model_type"])).parameters == 3 * LAYER + ENDS


class TestRope:
    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            ({}, {"theta": 10000.0, "scaling": "none"}),
            ({"rope_theta": 500000}, {"theta": 5e5}),
            ({"rope_scaling": None, "rope_theta": 1e6}, {"theta": 1e6, "scaling": "none"}),
            ({"rope_parameters": {"rope_theta": 7.0, "rope_type": "default"}}, {"theta": 7.0, "scaling": "none"}),
            ({"rope_scaling": {"type": "linear", "factor": 4}}, {"scaling": "linear", "factor": 4.0}),
            (
                {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
                {"scaling": "dynamic", "factor": 2.0, "original_max_position": 4096},
            ),
            (
                {
                    "rope_scaling": {
                        "rope_type": "llama3",
                        "factor": 8.0,
                        "low_freq_factor": 1.5,
                        "high_freq_factor": 4.0,
                        "original_max_position_embeddings": 8192,
                    }
                },
                {"scaling": "llama3", "factor": 8.0, "low_freq_factor": 1.5, "original_max_position": 8192},
            ),
            (
                {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}},
                {"scaling": "yarn", "beta_fast": 32.0, "beta_slow": 1.0, "attention_factor": None},
            ),
            ({"rope_scaling": {"type": "yarn", "factor": 4.0, "attention_factor": 1.1}}, {"attention_factor": 1.1}),
        ],
    )
    def test_scalings(self, changes, expected):
        rope = read(config(**changes)).rope.model_dump()
        assert {key: rope[key] for key in expected} == expected

    def test_yarn_with_the_two_scales_of_deepseek(self):
        # mscale 2, mscale_all_dim 1, factor e: (0.1 * 2 * 1 + 1) / (0.1 * 1 + 1) = 1.2 / 1.1
        scaling = {"type": "yarn", "factor": 2.718281828459045, "mscale": 2.0, "mscale_all_dim": 1.0}
        assert read(config(rope_scaling=scaling)).rope.attention_factor == pytest.approx(1.2 / 1.1)

    def test_internlms_rotary(self):
        spec = read(config("internlm", rotary={"base": 300000, "type": "dynamic"}))
        assert (spec.rope.theta, spec.rope.scaling, spec.rope.factor) == (3e5, "dynamic", 1.0)
        assert read(config("internlm", rotary={"base": 10000, "type": "origin"})).rope.scaling == "none"

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            (
                {"rope_scaling": {"type": "longrope", "factor": 2}},
                "rope_scaling: type 'longrope' is not modelled for this model_type; "
                "modelled: default, linear, dynamic, llama3, yarn",
            ),
            ({"rope_scaling": {"type": "linear"}}, "rope_scaling: missing key 'factor'"),
            ({"rope_scaling": {"type": "linear", "factor": 0.5}}, "rope_scaling.factor: 0.5 is below 1"),
            ({"rope_scaling": {"type": "linear", "factor": "2"}}, "rope_scaling.factor: '2' is not a finite number above zero"),
            ({"rope_scaling": {"type": "linear", "factor": 2, "spin": 1}}, "rope_scaling: unknown key 'spin'"),
            ({"rope_scaling": [1]}, "rope_scaling: [1] is not a mapping"),
            (
                {"rope_parameters": {"full_attention": {"rope_theta": 1e4}}},
                "rope_parameters: unknown key 'full_attention'",
            ),
            (
                {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}},
                "rope_parameters: partial_rotary_factor=0.5: only whole heads are modelled",
            ),
            (
                {"rope_scaling": {"type": "yarn", "factor": 2, "truncate": False}},
                "rope_scaling: truncate=False is not modelled",
            ),
            (
                {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": {"rope_theta": 1e4}},
                "rope_scaling: differs from rope_parameters; keep one",
            ),
            ({"rope_theta": -1}, "rope_theta: -1 is not a finite number above zero"),
        ],
    )
    def test_what_is_refused(self, changes, message):
        assert problems(config(**changes)) == [message]

    def test_phi3_reads_every_scaling_as_longrope(self):
        (problem,) = problems(config("phi3", rope_scaling={"type": "yarn", "factor": 2.0}))
        assert problem == "rope_scaling: type 'yarn' is not modelled for this model_type; modelled: default"

    def test_a_scaling_needs_to_know_the_original_range(self):
        (problem,) = problems(config(drop=["max_position_embeddings"], rope_scaling={"type": "dynamic", "factor": 2.0}))
        assert (
            problem == "rope_scaling: type 'dynamic' needs a whole original_max_position_embeddings or max_position_embeddings"
        )


class TestWindow:
    @pytest.mark.parametrize(
        ("data", "window"),
        [
            (config("mistral", sliding_window=256), 256),
            (config("mistral", sliding_window=None), None),
            (config("phi3", sliding_window=2047), 2047),
            (config("phi3"), None),
            (config("qwen2", sliding_window=256, use_sliding_window=False, max_window_layers=1), None),
            (config("qwen2", sliding_window=256), None),
            (config("qwen2", sliding_window=256, use_sliding_window=True, max_window_layers=0), 256),
            (config("qwen2", sliding_window=256, use_sliding_window=True, max_window_layers=3), None),
            (config("qwen2", sliding_window=256, use_sliding_window=True, max_window_layers=1), 256),
            (config("qwen2", sliding_window=256, use_sliding_window=True), None),  # the class's default: the first 28 without
            (config("qwen3", layer_types=["full_attention"] * 3), None),
            (config("qwen3", layer_types=["sliding_attention"] * 3, sliding_window=64, use_sliding_window=True), 64),
            (config("llama", sliding_window=None), None),
        ],
    )
    def test_sliding_window(self, data, window):
        assert read(data).sliding_window == window

    def test_mistrals_default_is_taken_and_said(self):
        spec = read(config("mistral"))
        assert spec.sliding_window == 4096
        assert spec.notes == ("sliding_window is absent: the class's default 4096",)

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (
                config("qwen2", sliding_window=256, use_sliding_window=True, max_window_layers="all"),
                "max_window_layers: 'all' is not a whole number",
            ),
            (
                config("qwen3", layer_types=["full_attention", "sliding_attention", "full_attention"]),
                "layer_types: some layers have a sliding window, but sliding_window (its length) is missing",
            ),
            (
                config(
                    "gemma2",
                    layer_types=[f"{kind}_attention" for kind in ("sliding", "full", "full", "sliding", "sliding")],
                    num_hidden_layers=5,
                    sliding_window=64,
                ),
                "layer_types: layers with and without a window come in no regular order, which is not modelled",
            ),
            (config("qwen3", layer_types=["linear_attention"] * 3), "layer_types: 'linear_attention' is not modelled"),
            (
                config("llama", layer_types=["full_attention"] * 2),
                "layer_types: ['full_attention', 'full_attention'] is not a list with a kind for each of 3 layers",
            ),
            (config("llama", sliding_window=64), "sliding_window: 64 is not a key of this model_type"),
            (config("mistral", sliding_window=0), "sliding_window: 0 is not a whole number from 1 to 1099511627776"),
        ],
    )
    def test_what_is_refused(self, data, message):
        assert problems(data) == [message]


class TestWindowedLayers:
    @pytest.mark.parametrize(
        ("data", "windowed"),
        [
            (config("mistral", sliding_window=64), [True] * 3),
            (config("qwen2", sliding_window=64, use_sliding_window=True, max_window_layers=1), [False, True, True]),
            (
                config(
                    "qwen3",
                    sliding_window=64,
                    use_sliding_window=True,
                    layer_types=["full_attention", "sliding_attention", "full_attention"],
                ),
                [False, True, False],
            ),
            (config("gemma2", sliding_window=64, num_hidden_layers=5), [True, False, True, False, True]),
            (config("gemma3_text", sliding_window=64, num_hidden_layers=8), [True] * 5 + [False] + [True] * 2),
            (config("gemma3_text", sliding_window=64, num_hidden_layers=4, sliding_window_pattern=2), [True, False] * 2),
            (config("gemma2", sliding_window=64, layer_types=["full_attention"] * 3), [False] * 3),
        ],
    )
    def test_which_layers_have_the_window(self, data, windowed):
        spec = read(data)
        assert [spec.kind_of(layer).window for layer in range(spec.layers)] == [64 if one else None for one in windowed]

    def test_gemma2_has_four_norms_a_tied_head_and_no_step(self):
        spec = read(config("gemma2", drop=["tie_word_embeddings"], head_dim=8))
        assert spec.parameters == 3 * (LAYER + 2 * 64) + ENDS - 1000 * 64
        assert (spec.post_norms, spec.tied_embeddings, spec.activation) == (True, True, "gelu_tanh")
        assert spec.not_planned == ()
        assert spec.not_built == (
            "norms after attention and feed-forward",
            "soft-capped scores and logits",
            "scaled embeddings",
        )

    def test_gemma3_also_has_norms_of_query_and_key_heads(self):
        gemma2, gemma3 = (read(config(kind, head_dim=8)) for kind in ("gemma2", "gemma3_text"))
        assert gemma3.parameters - gemma2.parameters == 3 * 2 * 8
