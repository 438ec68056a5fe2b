"""What a trainer refuses of its own file, or runs wrongly: by keys that lcplan has no knob for; with the source."""

import json
from pathlib import Path

import pytest

GPU = ("--hw", "dgx-h100x2", "--devices", "16")
TPU = ("--hw", "tpu-v5p-32", "--devices", "16")
MAXTEXT = {
    "model_name": "llama3-8b",
    "max_target_length": 131072,
    "per_device_batch_size": 1,
    "ici_fsdp_parallelism": 4,
    "ici_context_parallelism": 4,
    "context_parallel_strategy": "all_gather",
    "packing": False,
}
MEGATRON = (
    "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention "
    "--num-query-groups 8 --swiglu --normalization RMSNorm --position-embedding-type rope --rotary-base 500000 "
    "--disable-bias-linear --untie-embeddings-and-output-weights --vocab-size 128256 --use-distributed-optimizer "
    "--micro-batch-size 1 --context-parallel-size 4"
)


@pytest.fixture
def maxtext(lcplan):
    """The refusals of a MaxText file with some keys changed."""

    def _maxtext(hardware, **keys):
        lines = [f"{key}: {json.dumps(value)}" for key, value in (MAXTEXT | keys).items() if value is not None]
        Path("run.yml").write_text("\n".join(lines))
        answer = lcplan("estimate", "--from-maxtext", "run.yml", *hardware, "--format", "json")
        assert answer.code == 0, answer.err
        return answer.json["imported"]

    return _maxtext


@pytest.fixture
def megatron(lcplan):
    """The imported part of the answer to a file of Megatron arguments."""

    def _megatron(more, code=0):
        Path("args.txt").write_text(f"{MEGATRON} {more}")
        answer = lcplan("estimate", "--from-megatron", "args.txt", *GPU, "--format", "json")
        assert answer.code == code, answer.err
        return answer.json["imported"] if code == 0 else answer.err

    return _megatron


@pytest.mark.parametrize(
    ("hardware", "keys", "says"),
    [
        # AI-Hypercomputer/maxtext, utils/train_utils.py: what runs packed
        (GPU, {"packing": True}, "on GPU runs only as a balanced ring, not as all_gather"),
        (GPU, {"packing": None}, "packing (true unless set)"),
        (GPU, {"packing": True, "context_parallel_strategy": "ring", "context_parallel_load_balance": False}, "balanced ring"),
        (
            TPU,
            {"packing": True, "context_parallel_strategy": "ulysses", "context_parallel_load_balance": False},
            "with ulysses",
        ),
        (TPU, {"packing": True, "dataset_type": "synthetic"}, "refused for synthetic data"),
        # configs/types.py: Ulysses
        (TPU, {"context_parallel_strategy": "ulysses"}, "needs context_parallel_load_balance: false"),
        (GPU, {"context_parallel_strategy": "ulysses", "context_parallel_load_balance": False}, "Ulysses on TPU only"),
        # configs/types.py: tiles of the vocabulary
        (GPU, {"num_vocab_tiling": 3}, "num_vocab_tiling=3 must divide per_device_batch_size x max_target_length = 131072"),
    ],
)
def test_maxtext_refuses(maxtext, hardware, keys, says):
    assert any(says in text for text in maxtext(hardware, **keys)["refusals"])


@pytest.mark.parametrize(
    ("hardware", "keys"),
    [
        (GPU, {}),
        (GPU, {"packing": True, "context_parallel_strategy": "ring"}),
        (TPU, {"packing": True}),
        (TPU, {"context_parallel_strategy": "ulysses", "context_parallel_load_balance": False}),
        (GPU, {"packing": True, "ici_context_parallelism": 1, "ici_fsdp_parallelism": 16}),
        (GPU, {"num_vocab_tiling": 4}),
    ],
)
def test_maxtext_runs_the_nearest_neighbours(maxtext, hardware, keys):
    assert maxtext(hardware, **keys)["refusals"] == []


def test_unrolled_layers_are_told(maxtext):
    """openxla/xla#45753: 290 GB of temporaries with scan_layers=false and the latency-hiding scheduler, 62 GB scanned."""
    assert any("scan_layers=false" in note and "290 GB" in note for note in maxtext(GPU, scan_layers=False)["notes"])
    assert not any("scan_layers" in note for note in maxtext(GPU)["notes"])


def test_megatrons_dense_mask_is_counted(megatron):
    """NVIDIA/Megatron-LM: at 131072 tokens the data loader's mask of seq x seq bytes is 17.2 GB, whatever context splits."""
    found = megatron("--seq-length 131072")
    [mask] = [one for one in found["differences"] if one["name"] == "attention-mask"]
    assert mask["extra_bytes"] == 131072**2
    without = megatron("--seq-length 131072 --no-create-attention-mask-in-dataloader")
    assert "attention-mask" not in [one["name"] for one in without["differences"]]
    assert found["memory_bytes"] - without["memory_bytes"] == 131072**2


def test_stages_that_do_not_divide_the_layers_are_told(megatron):
    """NVIDIA/Megatron-LM: 30 layers over 4 stages trained 28 of them without a word."""
    said = megatron("--seq-length 8192 --pipeline-model-parallel-size 5", code=2)
    assert "pipeline-model-parallel-size=5 does not divide --num-layers 32" in said
    assert "train 30 layers" in said
    assert "lcplan has no such axis yet" in megatron("--seq-length 8192 --pipeline-model-parallel-size 4", code=2)


def test_rows_of_products_in_eight_bits(megatron):
    """NVIDIA/NeMo: fp8 with context parallelism needs local tokens that are a multiple of 16."""
    odd = megatron("--seq-length 4000 --fp8-format hybrid")
    assert any("multiple of 16 tokens" in text and "has 1000" in text for text in odd["refusals"])
    assert any("lcplan prices bf16" in note for note in odd["notes"])
    assert megatron("--seq-length 4096 --fp8-format hybrid")["refusals"] == []
    assert megatron("--seq-length 4000")["refusals"] == []


ACCELERATE = """
num_processes: 8
mixed_precision: bf16
fsdp_config: {fsdp_version: 2}
parallelism_config: {dp_shard_size: 2, cp_size: 4, cp_comm_strategy: allgather}
"""


def test_a_window_that_accelerate_drops_is_told(lcplan):
    """huggingface/accelerate: context parallelism drops windows (Mistral, Gemma) and trains another model without a word."""
    Path("a.yaml").write_text(ACCELERATE)
    run = ("estimate", "--from-accelerate", "a.yaml", "--seq", "32k", "--hw", "dgx-h100", "--global-batch", "8")
    mistral = lcplan(*run, "--model", "mistral-7b-v0.1")
    assert mistral.code == 2  # lcplan has no balanced gather of a window in every layer either
    assert "rule window-balance" in mistral.err
    assert "the window of 4096 tokens of mistral-7b-v0.1 is dropped unsaid" in mistral.err
    gemma = lcplan(*run, "--model", "gemma-3-1b", "--format", "json")
    assert any("is dropped unsaid" in text for text in gemma.json["imported"]["refusals"])
    assert lcplan(*run, "--model", "llama3-8b", "--format", "json").json["imported"]["refusals"] == []


def test_a_model_that_lcplan_does_not_write_for_the_trainer_is_priced_all_the_same(lcplan):
    Path("a.yaml").write_text(ACCELERATE)
    run = ("estimate", "--from-accelerate", "a.yaml", "--seq", "32k", "--hw", "dgx-h100", "--global-batch", "8")
    answer = lcplan(*run, "--model", "qwen3-30b-a3b")
    assert answer.code == 0
    assert "not looked for: qwen3-30b-a3b has experts, which lcplan does not export" in answer.out
    change = lcplan(*run, "--model", "qwen3-30b-a3b", "--format", "json").json["imported"]["would_change"]
    assert (change["best"], change["single"], len(change["why_none"])) == (None, [], 1)


def test_torchtitans_divisor_holds_without_context_too(lcplan):
    """pytorch/torchtitan, parallel_dims.py: seq_len_divisor is tensor x 2 x context, of every mesh."""
    text = (
        '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\nseq_len = %d\n[parallelism]\n'
        "data_parallel_shard_degree = 8\ntensor_parallel_degree = 2\n"
    )
    Path("a.toml").write_text(text % 8194)
    said = lcplan("estimate", "--from-torchtitan", "a.toml", *GPU, "--loss-chunk-tokens", "8194", "--format", "json")
    assert any("2 x context x tensor = 4 must divide seq_len=8194" in reason for reason in said.json["imported"]["refusals"])
    Path("a.toml").write_text(text % 8196)
    said = lcplan("estimate", "--from-torchtitan", "a.toml", *GPU, "--loss-chunk-tokens", "8196", "--format", "json")
    assert said.json["imported"]["refusals"] == []


def test_later_torchtitans_strategy_is_read(lcplan):
    """torchtitan after 0.3.0 has ``context_parallel_strategy`` kv_allgather or ulysses."""
    Path("a.toml").write_text(
        '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\nseq_len = 131072\n'
        '[parallelism]\ndata_parallel_shard_degree = 2\ncontext_parallel_degree = 8\ncontext_parallel_strategy = "ulysses"\n'
    )
    answer = lcplan("estimate", "--from-torchtitan", "a.toml", *GPU, "--format", "json")
    assert answer.json["candidate"]["strategy"]["scheme"] == "ulysses"
