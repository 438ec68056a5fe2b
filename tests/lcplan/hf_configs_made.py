"""Small configs of each model_type for the tests of lcplan.hf, and how they are read."""

import pytest

from lcplan.formats.errors import BadInputError
from lcplan.hf import from_config

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 1000,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 4096,
}
# one layer: query and out 2 * 64*64, key and value 2 * 64*32, gate, up, down 3 * 64*160, norms 2 * 64
LAYER = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 160 + 2 * 64
ENDS = 2 * 1000 * 64 + 64


CLASSES = {
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "internlm": "InternLMForCausalLM",
    "internlm2": "InternLM2ForCausalLM",
    "Yi": "YiForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
}
TYPES = "llama, mistral, qwen2, qwen3, phi3, internlm, internlm2, yi, "
TYPES += "mixtral, qwen2_moe, qwen3_moe, gpt_oss, gemma2, gemma3_text, deepseek_v2, kimi_k2, deepseek_v3, llama4_text"


def config(model_type="llama", drop=(), **changes):
    """The small config of a model_type with some keys dropped and some changed."""
    base = {**LLAMA, "model_type": model_type, "architectures": [CLASSES.get(model_type, "LlamaForCausalLM")]}
    return {key: value for key, value in {**base, **changes}.items() if key not in drop}


def read(data):
    """The model of a config."""
    return from_config(data, "name", where="config.json")


def problems(data):
    """What is wrong with a config, without the file's name."""
    with pytest.raises(BadInputError) as error:
        read(data)
    return [problem.removeprefix("config.json: ") for problem in error.value.problems]
