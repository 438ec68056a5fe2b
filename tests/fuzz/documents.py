"""Valid documents of every kind that lcplan reads, and ways to damage them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import yaml
from hypothesis import strategies as st

MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 512,
    "vocab_size": 1024,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
HARDWARE = {
    "base": "dgx-h100x2",
    "device": {"peak_flop_per_s": "900TFLOP/s", "hbm_bytes": "80GiB", "rates": {"gemm_flop_per_s": "600TFLOP/s"}},
    "network_link": {"oneway_bytes_per_s": "25GB/s"},
}
OWN_MODEL = {"name": "my-model", "base": "llama-tiny", "layers": 3}
TABLE = {
    "schema_version": 2,
    "name": "mine",
    "source": {"title": "mine", "where": "here"},
    "flop_convention": "model",
    "defaults": {
        "model": "llama3-8b",
        "hardware": "dgx-h100",
        "workload": {"seq_len": 8192, "precision": "bf16"},
        "strategy": {"remat": "full", "backend": "nccl", "microbatches": 1},
    },
    "rows": [
        {
            "id": "a",
            "devices": 8,
            "workload": {"global_batch": 16},
            "strategy": {"mesh": {"data": 1, "fsdp": 8, "context": 1, "tensor": 1, "expert": 1, "pipe": 1}},
            "measured": {"step_s": 2.1, "peak_bytes": 36.0e9},
        },
        {"id": "b", "devices": 8, "strategy": {"mesh": {"context": 8}, "scheme": "ring"}, "measured": {"fits": True}},
    ],
    "pairs": [["a", "b"]],
}
MAXTEXT = {
    "model_name": "llama3-8b",
    "max_target_length": 8192,
    "per_device_batch_size": 1,
    "ici_fsdp_parallelism": 8,
    "remat_policy": "full",
    "hardware": "gpu",
}
TORCHTITAN = """[model]
name = "llama3"
flavor = "8B"
[training]
seq_len = 8192
local_batch_size = 1
[parallelism]
data_parallel_shard_degree = 8
[activation_checkpoint]
mode = "full"
"""
MEGATRON = """--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 \\
 --num-attention-heads 32 --group-query-attention --num-query-groups 8 --seq-length 8192 --max-position-embeddings 8192 \\
 --micro-batch-size 1 --global-batch-size 8 --tensor-model-parallel-size 2 --context-parallel-size 4 --bf16 --swiglu \\
 --use-distributed-optimizer --sequence-parallel --recompute-granularity full --recompute-method uniform
"""
DEEPSPEED = {
    "zero_optimization": {"stage": 3},
    "bf16": {"enabled": True},
    "train_micro_batch_size_per_gpu": 1,
    "train_batch_size": 8,
    "gradient_accumulation_steps": 1,
}
ACCELERATE = {
    "distributed_type": "FSDP",
    "num_processes": 8,
    "mixed_precision": "bf16",
    "fsdp_config": {"fsdp_version": 2, "fsdp_activation_checkpointing": True},
}

NASTY = st.one_of(
    st.sampled_from(
        [
            None,
            True,
            "",
            "none",
            0,
            -1,
            1e308,
            float("nan"),
            float("inf"),
            10**40,
            "9" * 5000,
            "a\nb",
            "$(touch X)",
            "\x1b[31m",
            "[/]",
            "false",
            [],
            {},
            [[[]]],
            {"a": {"b": []}},
            "1e400",
            "2026-01-01",
            "é" * 300,
            "../../etc",
            0.1,
            7,
            3,
        ]
    ),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=20),
)


def paths(value: Any, prefix: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a document."""
    yield prefix
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths(inner, (*prefix, key))


@st.composite
def damaged(draw: st.DrawFn, document: Any) -> Any:
    """The document with up to three places replaced, removed or added."""
    result = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(paths(result))))
        if not path:
            continue
        holder = result
        for step in path[:-1]:
            holder = holder[step]
        action = draw(st.sampled_from(["replace", "replace", "remove", "add"]))
        if action == "replace":
            holder[path[-1]] = copy.deepcopy(draw(NASTY))
        elif action == "remove":
            del holder[path[-1]]
        elif isinstance(holder, dict):
            holder[draw(st.text(min_size=1, max_size=12))] = copy.deepcopy(draw(NASTY))
    return result


@st.composite
def damaged_text(draw: st.DrawFn, text: str) -> str:
    """The text with a piece cut, doubled or replaced."""
    start = draw(st.integers(0, len(text)))
    end = min(len(text), start + draw(st.integers(0, 30)))
    piece = draw(
        st.one_of(
            st.just(""),
            st.just(text[start:end] * 2),
            st.text(max_size=10),
            st.sampled_from(["9" * 5000, "\x00", "--", "'", '"']),
        )
    )
    return text[:start] + piece + text[end:]


def as_json(document: Any) -> str:
    """The document as JSON, NaN included."""
    return json.dumps(document, default=str)


def as_yaml(document: Any) -> str:
    """The document as YAML."""
    return yaml.safe_dump(document, allow_unicode=True)
