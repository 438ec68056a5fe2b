"""A config.json that lcplan cannot count exactly is refused by name and key."""

import contextlib
import json

import pytest
from hf_configs_made import ENDS, LAYER, LLAMA, TYPES, config, problems, read
from hypothesis import given
from hypothesis import strategies as st

from lcplan.catalog import model
from lcplan.formats.errors import BadInputError
from lcplan.hf import from_config

ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.just([]),
    st.just({}),
    st.sampled_from([1, 8, 64]),
)
ROPE = ("rope_theta", "rope_scaling", "rope_parameters", "rotary")
WINDOW = ("sliding_window", "use_sliding_window", "max_window_layers", "layer_types")
KEYS = (*LLAMA, *ROPE, *WINDOW, "head_dim", "hidden_act", "tie_word_embeddings", "quantization_config")


class TestRefusals:
    @pytest.mark.parametrize(
        "model_type",
        [
            *("gemma3", "olmo3", "cohere2", "exaone4"),  # windows and full attention in turn, and other blocks
            *("qwen3_next", "qwen3_5", "nemotron_h", "rwkv5"),  # linear attention, state spaces
            *("phimoe", "qwen3_vl_moe", "deepseek_v32", "vit", "bert", "gpt2", "", "t5"),
        ],
    )
    def test_other_model_types_by_name(self, model_type):
        message = f"model_type '{model_type}' is not modelled; lcplan models decoders of the types {TYPES}"
        assert problems({**LLAMA, "model_type": model_type}) == [message]

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("num_local_experts", 8),
            ("num_experts_per_tok", 2),
            ("n_routed_experts", 64),
            ("moe_intermediate_size", 1024),
            ("kv_lora_rank", 512),
            ("q_lora_rank", 1536),
            ("partial_rotary_factor", 0.5),
            ("rotary_pct", 0.25),
            ("qk_layernorm", True),
            ("use_qk_norm", True),
            ("attention_sinks", True),
            ("alibi", True),
            ("parallel_attn", True),
            ("use_parallel_residual", True),
            ("logit_scale", 0.0625),
            ("final_logit_softcapping", 30.0),
            ("attn_logit_softcapping", 50.0),
            ("embedding_multiplier", 12.0),
            ("residual_multiplier", 0.22),
            ("scale_emb", 12),
            ("scale_depth", 1.4),
            ("no_rope_layers", [1, 1, 0]),
            ("mrope_section", [16, 24, 24]),
            ("vision_config", {"hidden_size": 1}),
            ("text_config", {"hidden_size": 1}),
            ("image_token_index", 10),
            ("is_encoder_decoder", True),
            ("is_causal", False),
            ("use_bidirectional_attention", True),
            ("use_rope", False),
            ("add_cross_attention", True),
            ("mamba_d_state", 16),
            ("linear_num_key_heads", 16),
            ("block_configs", [{"attention": {}}]),
            ("num_nextn_predict_layers", 1),
            ("use_bias", True),
            ("qkv_bias", True),
            ("lm_head_bias", True),
            ("clip_qkv", 8.0),
            ("norm_type", "layer_norm"),
            ("cla_share_factor", 2),
            ("num_kv_shared_layers", 2),
        ],
    )
    def test_keys_that_change_the_architecture_by_name_and_value(self, key, value):
        (problem,) = problems(config(**{key: value}))
        assert problem.startswith(f"key '{key}' (")
        assert problem.endswith(", which lcplan does not model")

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("num_local_experts", None),
            ("num_experts", 0),
            ("alibi", False),
            ("partial_rotary_factor", 1.0),
            ("rotary_pct", 1),
            ("logit_scale", 1.0),
            ("norm_type", "rms_norm"),
            ("vision_config", {}),
            ("is_encoder_decoder", False),
            ("is_causal", True),
            ("use_rope", True),
            ("cross_attention_hidden_size", None),
            ("attention_sink_size", 4),
            ("use_mrope", False),
            ("router_aux_loss_coef", 0.0),
        ],
    )
    def test_their_neutral_values_are_fine(self, key, value):
        assert read(config(**{key: value})) == read(config())

    @pytest.mark.parametrize(
        ("classes", "shown"),
        [
            (["LlamaForSequenceClassification"], "'LlamaForSequenceClassification'"),
            (["LlamaModel"], "'LlamaModel'"),
            ("DeciLMForCausalLM", "'DeciLMForCausalLM'"),
            (["LlamaForCausalLM", 3], "3"),
        ],
    )
    def test_other_classes_by_name(self, classes, shown):
        assert problems(config(architectures=classes)) == [
            f"architectures {shown} is not modelled for model_type 'llama'; expected 'LlamaForCausalLM'"
        ]

    def test_names_of_other_libraries_are_refused_by_the_missing_key(self):
        renamed = config(drop=["num_hidden_layers", "hidden_size"], n_layers=3, dim=64)
        assert problems(renamed) == ["missing key 'hidden_size'", "missing key 'num_hidden_layers'"]


class TestWrongValues:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"hidden_size": 1e308}, "hidden_size: 1e+308 is not a whole number from 1 to 100000000"),
            ({"hidden_size": 10**400}, f"hidden_size: 1{'0' * 36}... is not a whole number from 1 to 100000000"),
            ({"num_hidden_layers": -3}, "num_hidden_layers: -3 is not a whole number from 1 to 4096"),
            ({"num_hidden_layers": True}, "num_hidden_layers: True is not a whole number from 1 to 4096"),
            ({"vocab_size": "32000"}, "vocab_size: '32000' is not a whole number from 1 to 100000000"),
            ({"intermediate_size": [1, 2]}, "intermediate_size: [1, 2] is not a whole number from 1 to 100000000"),
            ({"num_attention_heads": 0}, "num_attention_heads: 0 is not a whole number from 1 to 65536"),
            ({"num_key_value_heads": 3}, "num_key_value_heads: 3 does not divide num_attention_heads=8"),
            ({"num_key_value_heads": [4]}, "num_key_value_heads: [4] is not a whole number from 1 to 65536"),
            ({"hidden_size": 63}, "hidden_size: 63 is not a multiple of num_attention_heads=8, and there is no head_dim"),
            ({"head_dim": 7}, "head_dim: 7 is odd; RoPE rotates pairs"),
            ({"head_dim": 64.0}, "head_dim: 64.0 is not a whole number from 1 to 65536"),
            ({"tie_word_embeddings": "yes"}, "tie_word_embeddings: 'yes' is not true or false"),
            ({"attention_bias": 1}, "attention_bias: 1 is not true or false"),
            ({"rms_norm_eps": float("nan")}, "rms_norm_eps: nan is not a finite number above zero"),
            ({"rms_norm_eps": True}, "rms_norm_eps: True is not a finite number above zero"),
            ({"hidden_act": "relu2"}, "hidden_act: 'relu2' is not modelled; did you mean 'relu' or 'gelu'?"),
            ({"hidden_act": 3}, "hidden_act: 3 is not modelled; "
             "known: gelu, gelu_fast, gelu_new, gelu_pytorch_tanh, relu, silu, swish"),
            ({"max_position_embeddings": 1.5}, "max_position_embeddings: 1.5 is not a whole number from 1 to 1099511627776"),
        ],
    )  # fmt: skip
    def test_each_is_one_clear_problem(self, changes, message):
        assert problems(config(**changes)) == [message]

    def test_a_model_type_that_is_no_text(self):
        message = f"model_type ['llama'] is not modelled; lcplan models decoders of the types {TYPES}"
        assert problems({**LLAMA, "model_type": ["llama"]}) == [message]

    def test_qwen3_without_a_head_size(self):
        assert problems(config("qwen3", head_dim=None)) == ["head_dim: null is not a whole number; this model_type needs one"]

    def test_all_problems_at_once(self):
        found = problems({"model_type": "llama", "hidden_size": 1e308, "num_hidden_layers": -3})
        assert found[:3] == [
            "hidden_size: 1e+308 is not a whole number from 1 to 100000000",
            "missing key 'num_attention_heads'",
            "num_hidden_layers: -3 is not a whole number from 1 to 4096",
        ]

    @pytest.mark.parametrize(("data", "kind"), [([], "list"), ("x", "str"), (None, "NoneType"), (3, "int")])
    def test_no_mapping(self, data, kind):
        assert problems(data) == [f"not a Hugging Face config: a mapping was expected, this is a {kind}"]

    def test_no_model_type(self):
        assert problems({}) == ["not a Hugging Face config of a language model: missing key 'model_type'"]
        (problem,) = problems({"architectures": ["OddForCausalLM"]})
        assert problem == (
            "not a Hugging Face config of a language model: missing key 'model_type', and architectures ['OddForCausalLM'] "
            "is not modelled"
        )

    @given(
        st.fixed_dictionaries(
            {"model_type": st.sampled_from(["llama", "mistral", "qwen2", "qwen3", "phi3", "internlm2", "x"])},
            optional=dict.fromkeys(set(KEYS) - {"model_type"}, ANYTHING),
        )
    )
    def test_any_config_is_read_or_refused(self, data):
        with contextlib.suppress(BadInputError):
            assert from_config(data, "any").parameters > 0


class TestNotes:
    def test_a_quantisation_is_ignored_and_said(self):
        spec = read(config(quantization_config={"quant_method": "fp8", "bits": 8}))
        assert spec.parameters == 3 * LAYER + ENDS
        assert spec.notes == ("quantization_config ('fp8') is ignored: training state is not sized from it",)

    def test_dropout_is_ignored_and_said(self):
        assert read(config(attention_dropout=0.1)).notes == (
            "attention_dropout=0.1 is ignored: the step trains without dropout",
        )

    def test_code_of_the_models_own_is_said(self):
        assert read(config(auto_map={"AutoModel": "x.Y"})).notes == (
            "auto_map names code of the model's own, which lcplan does not read",
        )

    def test_unknown_keys_are_said(self):
        spec = read(config(zebra_stripes=7, bos_token_id=1, torch_dtype="bfloat16", dtype="float32", transformers_version="5"))
        assert spec.notes == ("keys that lcplan does not know, taken as without effect: zebra_stripes",)


class TestFiles:
    def write(self, path, data):
        path.write_text(json.dumps(data))
        return str(path)

    def test_a_file_gives_its_stem_a_folder_its_name(self, tmp_path):
        assert model(self.write(tmp_path / "My-Model.json", config())).name == "My-Model"
        folder = tmp_path / "Some-Model"
        folder.mkdir()
        self.write(folder / "config.json", config())
        assert model(str(folder)).name == "Some-Model"
        assert model(str(folder / "config.json")).name == "Some-Model"

    def test_a_config_written_as_yaml(self, tmp_path):
        (tmp_path / "m.yaml").write_text(json.dumps(config()))
        assert model(str(tmp_path / "m.yaml")).parameters == 3 * LAYER + ENDS

    def test_a_folder_without_a_config(self, tmp_path):
        with pytest.raises(BadInputError) as error:
            model(str(tmp_path))
        assert str(error.value) == f"{tmp_path}: the folder has no config.json"

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (
                b'{"model_type": "llama", "hidden_size": 40',
                "not valid JSON: Expecting ',' delimiter: line 1 column 42 (char 41)",
            ),
            (b"\x00\xff\x9f" * 100, "not a UTF-8 text file"),
            (b"[]", "not a Hugging Face config: a mapping was expected, this is a list"),
            (b"", "not valid JSON: Expecting value: line 1 column 1 (char 0)"),
            (b'{"model_type": "vit", "hidden_size": 768}', "model_type 'vit' is not modelled; lcplan models decoders"),
        ],
    )
    def test_what_is_no_config(self, tmp_path, content, message):
        path = tmp_path / "config.json"
        path.write_bytes(content)
        with pytest.raises(BadInputError) as error:
            model(str(path))
        assert str(error.value).startswith(f"{path}: {message}")

    def test_a_hundred_megabytes(self, tmp_path):
        path = tmp_path / "config.json"
        with path.open("wb") as stream:
            stream.truncate(100 * 2**20)
        with pytest.raises(BadInputError, match="above 16 MiB"):
            model(str(path))
