"""What PyTorch's trainers refuse of their own files, or stop at in the first step; each with its source."""

import json
from pathlib import Path

import pytest

GPU = ("--hw", "dgx-h100x2", "--devices", "16", "--format", "json")
LLAMA = (
    "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention "
    "--num-query-groups 8 --swiglu --normalization RMSNorm --position-embedding-type rope --rotary-base 500000 "
    "--disable-bias-linear --untie-embeddings-and-output-weights --vocab-size 128256 --micro-batch-size 1 --seq-length 8192 "
)


@pytest.fixture
def refusals(lcplan):
    """The refusals of a file's text."""

    def _refusals(trainer, text, *options):
        name = "file.py" if text.startswith("from ") else "file.toml"
        Path(name).write_text(text if isinstance(text, str) else json.dumps(text))
        answer = lcplan("estimate", f"--from-{trainer}", name, *options, *GPU)
        assert answer.code == 0, answer.err
        return answer.json["imported"]["refusals"]

    return _refusals


@pytest.mark.parametrize(
    ("more", "says"),
    [
        # NVIDIA/TransformerEngine#746: validate_args asserts it
        ("--tensor-model-parallel-size 2 --tp-comm-overlap", "--tp-comm-overlap needs --sequence-parallel"),
        # NVIDIA/Megatron-LM, dot_product_attention.py: context parallelism is TEDotProductAttention's
        ("--context-parallel-size 4 --transformer-impl local", "runs only in Transformer Engine's attention"),
        # NVIDIA/Megatron-LM, arguments.py
        ("--overlap-param-gather", "--overlap-param-gather needs --use-distributed-optimizer"),
        ("--use-distributed-optimizer --optimizer-cpu-offload", "needs --use-precision-aware-optimizer"),
        ("--use-torch-fsdp2 --use-distributed-optimizer", "--use-torch-fsdp2 does not go with --use-distributed-optimizer"),
        # NVIDIA/Megatron-LM, transformer_config.py
        ("--recompute-granularity full", "--recompute-granularity full needs --recompute-method"),
        ("--recompute-granularity full --recompute-method block", "needs --recompute-num-layers"),
        # modelscope/ms-swift#9723
        ("--seq-length 8208 --fp8-format e4m3 --fp8-recipe mxfp8", "take a multiple of 32 tokens"),
    ],
)
def test_megatron_refuses(refusals, more, says):
    assert any(says in text for text in refusals("megatron", LLAMA + more))


@pytest.mark.parametrize(
    "more",
    [
        "--tensor-model-parallel-size 2 --tp-comm-overlap --sequence-parallel",
        "--context-parallel-size 4",
        "--use-distributed-optimizer --overlap-param-gather",
        "--use-distributed-optimizer --optimizer-cpu-offload --use-precision-aware-optimizer",
        "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
        "--seq-length 8208 --fp8-format e4m3",
    ],
)
def test_megatron_runs_the_nearest_neighbours(refusals, more):
    assert refusals("megatron", LLAMA + more) == []


def test_experts_beside_tensor_ranks_need_sequence_parallel(refusals):
    """ROCm/Megatron-LM#85: validate_args asserts it of a mixture of experts, not of a dense model."""
    text = "--num-layers 32 --seq-length 4096 --micro-batch-size 1 --tensor-model-parallel-size 2 --use-distributed-optimizer "
    moe = text + "--expert-model-parallel-size 4 --num-experts 8"
    assert any("experts next to" in said for said in refusals("megatron", moe, "--model", "mixtral-8x7b"))
    assert refusals("megatron", moe + " --sequence-parallel", "--model", "mixtral-8x7b") == []
    assert refusals("megatron", LLAMA + "--tensor-model-parallel-size 2") == []


def test_deepspeeds_tensor_parallelism_and_zero_three(refusals):
    """deepspeedai/DeepSpeed#8167: AutoTP trains with ZeRO 0, 1 and 2; the engine refuses stage 3 with an optimizer."""
    run = ("--model", "llama3-8b", "--seq", "4k", "--remat", "full")
    text = '{"train_micro_batch_size_per_gpu": 1, "tensor_parallel": {"autotp_size": 2}, "zero_optimization": {"stage": %d}}'
    assert any("AutoTP with ZeRO 0, 1 and 2 only" in said for said in refusals("deepspeed", text % 3, *run))
    assert refusals("deepspeed", text % 2, *run) == []


def test_ulysses_and_zero_nought(refusals):
    """deepspeedai/DeepSpeed#7833: the first step of the optimizer ends with an error in stage 0 alone."""
    run = ("--model", "llama3.2-1b", "--seq", "32k", "--remat", "full")
    text = '{"train_micro_batch_size_per_gpu": 1, "sequence_parallel_size": 8, "zero_optimization": {"stage": %d}}'
    assert any("with ZeRO-0" in said for said in refusals("deepspeed", text % 0, *run))
    assert refusals("deepspeed", text % 1, *run) == []


def test_offloaded_parameters_are_for_stage_three(refusals):
    run = ("--model", "llama3-8b", "--seq", "4k", "--remat", "full")
    zero = {"stage": 2, "offload_param": {"device": "cpu"}}
    text = json.dumps({"train_micro_batch_size_per_gpu": 1, "zero_optimization": zero})
    assert any("offload_param is for ZeRO-3 only" in said for said in refusals("deepspeed", text, *run))


@pytest.mark.parametrize(
    ("fsdp", "kind", "parallel", "says"),
    [
        # huggingface/accelerate#3700: context parallelism shards over an FSDP2 mesh
        ({"fsdp_version": 1, "fsdp_sharding_strategy": "FULL_SHARD"}, "FSDP", {"cp_size": 16}, "needs FSDP2"),
        ({}, "DEEPSPEED", {"cp_size": 8}, "needs FSDP2"),
        # huggingface/accelerate#3817: Ulysses is DeepSpeed's
        ({"fsdp_version": 2}, "FSDP", {"sp_size": 8, "dp_shard_size": 2}, "only under distributed_type DEEPSPEED"),
        ({"fsdp_version": 2}, "FSDP", {"cp_size": 8, "dp_shard_size": 2}, None),
        ({}, "DEEPSPEED", {"sp_size": 8}, None),
    ],
)
def test_what_accelerate_takes_beside_a_way_of_sharding(refusals, fsdp, kind, parallel, says):
    sizes = {f"parallelism_config_{name}": size for name, size in parallel.items()}
    file = {"num_processes": 16, "mixed_precision": "bf16", "distributed_type": kind, "parallelism_config": sizes}
    more = {"fsdp_config": fsdp} if fsdp else {"deepspeed_config": {"zero_stage": 3}}
    run = ("--model", "llama3-8b", "--seq", "64k", "--remat", "full", "--global-batch", "2")
    found = refusals("accelerate", json.dumps(file | more), *run)
    assert any(says in said for said in found) if says else found == []


TITAN = """from torchtitan.models.llama3 import model_registry
from torchtitan.config import ParallelismConfig, TrainingConfig


def mine():
    config = base()
    config.model_spec = model_registry("8B", attn_backend="%s")
    config.training = TrainingConfig(local_batch_size=1, seq_len=65536)
    config.parallelism = ParallelismConfig(data_parallel_shard_degree=4, context_parallel_degree=4)
    config.activation_checkpoint = None
    return config
"""


def test_torchtitans_context_parallelism_is_flexattentions(refusals):
    """pytorch/torchtitan, models/common/decoder.py: sdpa and varlen have none."""
    assert any("use attn_backend='flex'" in said for said in refusals("torchtitan", TITAN % "sdpa"))
    assert refusals("torchtitan", TITAN % "flex") == []


MOE = (
    "--num-layers 24 --seq-length 16384 --micro-batch-size 1 --use-distributed-optimizer --num-experts 32 "
    "--context-parallel-size 4 --cp-comm-type %s"
)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        # NVIDIA/Megatron-LM#1160 and NVIDIA/TransformerEngine#2541
        ("p2p", ("have no attention under --cp-comm-type p2p", "attention sinks of gpt-oss-20b run over context")),
        ("all_gather", ("attention sinks of gpt-oss-20b run over context only under --cp-comm-type a2a",)),
        ("a2a", ()),
    ],
)
def test_windows_and_sinks_over_context_ranks(refusals, kind, says):
    found = refusals("megatron", MOE % kind, "--model", "gpt-oss-20b")
    assert len(found) == len(says)
    assert all(word in text for word, text in zip(says, found, strict=True))


def test_sinks_that_torchs_context_parallelism_has_not(refusals):
    """huggingface/transformers, models/gpt_oss: no sdpa; accelerate's cp_size runs in sdpa alone."""
    file = {"num_processes": 16, "mixed_precision": "bf16", "distributed_type": "FSDP", "fsdp_config": {"fsdp_version": 2}}
    parallel = {"parallelism_config": {"cp_size": 4, "dp_shard_size": 4}}
    run = ("--model", "gpt-oss-20b", "--seq", "16k", "--remat", "full", "--global-batch", "4")
    assert any("which has no attention sinks" in text for text in refusals("accelerate", json.dumps(file | parallel), *run))
    alone = {"parallelism_config": {"dp_shard_size": 16}}
    run = (*run[:-1], "16")
    assert refusals("accelerate", json.dumps(file | alone), *run) == []
