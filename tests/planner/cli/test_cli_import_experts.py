"""Mixtures of experts in trainers' files: the expert axis is read, the model by its name or from --model."""

from pathlib import Path

import pytest

GPU = ("--hw", "dgx-h100x2", "--devices", "16", "--format", "json")
SHORT = "max_target_length: 8192\nper_device_batch_size: 1\n"


@pytest.fixture
def estimated(lcplan):
    """Strategy and workload of a file of one trainer."""

    def _estimated(trainer, name, text, *more):
        Path(name).write_text(text)
        answer = lcplan("estimate", f"--from-{trainer}", name, *GPU, *more)
        assert answer.code == 0, answer.err
        document = answer.json
        return document["candidate"]["strategy"], document["request"]

    return _estimated


def test_maxtext(estimated):
    text = """
model_name: mixtral-8x7b
max_target_length: 8192
per_device_batch_size: 2
ici_fsdp_parallelism: 2
ici_expert_parallelism: 8
"""
    strategy, request = estimated("maxtext", "run.yml", text)
    assert strategy["mesh"] == {"data": 1, "fsdp": 2, "context": 1, "tensor": 1, "expert": 8}
    assert (request["model"]["name"], request["workload"]["global_batch"]) == ("mixtral-8x7b", 32)


def test_megatron(estimated):
    text = (
        "--tensor-model-parallel-size 2 --sequence-parallel --expert-model-parallel-size 4 --num-experts 8 --moe-grouped-gemm "
        "--num-layers 32 --seq-length 8192 --micro-batch-size 1 --global-batch-size 32 --use-distributed-optimizer"
    )
    strategy, request = estimated("megatron", "args.txt", text, "--model", "mixtral-8x7b")
    # 16 devices over tensor 2 are 8 data-parallel ranks, of which 4 share experts
    assert strategy["mesh"] == {"data": 1, "fsdp": 2, "context": 1, "tensor": 2, "expert": 4}
    assert (strategy["microbatches"], request["workload"]["global_batch"]) == (4, 32)


def test_torchtitan(estimated):
    text = """
[training]
local_batch_size = 2
seq_len = 8192
[parallelism]
data_parallel_shard_degree = 16
expert_parallel_degree = 8
"""
    strategy, request = estimated("torchtitan", "run.toml", text, "--model", "qwen3-30b-a3b")
    assert strategy["mesh"] == {"data": 1, "fsdp": 2, "context": 1, "tensor": 1, "expert": 8}
    assert (strategy["microbatches"], request["workload"]["global_batch"]) == (1, 32)


def test_experts_that_the_axis_does_not_divide(lcplan):
    """vllm-project/vllm#52435: 256 experts over 3 ranks; here 8 over 16."""
    Path("run.yml").write_text(SHORT + "model_name: mixtral-8x7b\nici_expert_parallelism: 16\nici_fsdp_parallelism: 1\n")
    answer = lcplan("estimate", "--from-maxtext", "run.yml", *GPU)
    assert answer.code == 2
    assert "expert=16 does not divide the 8 experts of mixtral-8x7b; use 1, 2, 4 or 8" in answer.err


def test_a_dense_model_has_no_experts_to_split(lcplan):
    Path("run.yml").write_text(SHORT + "model_name: llama3-8b\nici_expert_parallelism: 8\nici_fsdp_parallelism: 2\n")
    answer = lcplan("estimate", "--from-maxtext", "run.yml", *GPU)
    assert answer.code == 2
    assert "llama3-8b is dense and has no experts to split" in answer.err


TITAN = "[training]\nlocal_batch_size = 1\nseq_len = 8192\n[parallelism]\ndata_parallel_shard_degree = "


def test_expert_ranks_are_folded_over_context(estimated):
    text = TITAN + "4\ncontext_parallel_degree = 4\nexpert_parallel_degree = 8\n"
    strategy, _ = estimated("torchtitan", "run.toml", text, "--model", "qwen3-30b-a3b")
    assert strategy["mesh"] == {"data": 1, "fsdp": 4, "context": 4, "tensor": 1, "expert": 1}
    assert (strategy["expert_fold"], strategy["expert_tensor"]) == (8, "split")


def test_ranks_that_do_not_shard_the_state_share_no_experts(lcplan):
    text = TITAN + "2\ndata_parallel_replicate_degree = 4\ncontext_parallel_degree = 2\nexpert_parallel_degree = 8\n"
    Path("run.toml").write_text(text)
    answer = lcplan("estimate", "--from-torchtitan", "run.toml", "--model", "qwen3-30b-a3b", *GPU)
    assert answer.code == 2
    assert "expert_parallel_degree=8 does not divide the 4 ranks that have tokens of their own" in answer.err


FOLDED = (
    "--tensor-model-parallel-size 2 --sequence-parallel --context-parallel-size 4 --num-experts 128 --moe-grouped-gemm "
    "--num-layers 48 --seq-length 32768 --micro-batch-size 1 --global-batch-size 16 --use-distributed-optimizer "
    "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1 --cp-comm-type p2p "
)
THIRTY_TWO = ("--hw", "dgx-h100x4", "--devices", "32", "--format", "json", "--model", "qwen3-30b-a3b")


def test_megatron_folds_experts_over_context_and_tensor(lcplan):
    """TP2 CP4 with EP8 on 32 GPUs: megatron-core's parallel folding (README of core/transformer/moe)."""
    answers = {}
    for split in (1, 2):
        Path("args.txt").write_text(FOLDED + f"--expert-model-parallel-size 8 --expert-tensor-parallel-size {split}\n")
        answer = lcplan("estimate", "--from-megatron", "args.txt", *THIRTY_TWO)
        assert answer.code == 0, answer.err
        answers[split] = answer.json["candidate"]
    kinds = {split: (one["strategy"]["expert_fold"], one["strategy"]["expert_tensor"]) for split, one in answers.items()}
    assert kinds == {1: (8, "whole"), 2: (8, "split")}
    assert answers[1]["strategy"]["mesh"] == {"data": 1, "fsdp": 4, "context": 4, "tensor": 2, "expert": 1}
    whole, split = (answers[number]["estimate"] for number in (1, 2))
    assert whole["memory_bytes"]["params"] == split["memory_bytes"]["params"]
    assert whole["time_s"]["comm_expert"] < split["time_s"]["comm_expert"] / 2


def test_the_weights_that_megatrons_ranks_hold_whole_are_those_of_their_own_experts(lcplan):
    Path("args.txt").write_text(FOLDED + "--expert-model-parallel-size 8 --expert-tensor-parallel-size 1\n")
    found = lcplan("estimate", "--from-megatron", "args.txt", *THIRTY_TWO).json["imported"]["differences"]
    [sharding] = [one for one in found if one["name"] == "sharding"]
    experts = 48 * 128 * 3 * 2048 * 768
    vectors = 48 * (2 * 2048 + 2 * 128) + 2048
    dense = 30_532_122_624 - vectors - experts
    held = dense / 2 + experts / 8  # bf16 weights and fp32 gradients, of which the cost model has the sharded gradients
    assert sharding["extra_bytes"] == pytest.approx(6 * held - 4 * (dense + experts) / 32, rel=1e-6)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--expert-model-parallel-size 64", "--expert-model-parallel-size=64 does not divide the 16 ranks"),
        ("--expert-model-parallel-size 8 --expert-tensor-parallel-size 4", "use 1 or 2"),
        ("--expert-tensor-parallel-size 1", "without expert ranks"),
    ],
)
def test_expert_ranks_that_lcplan_does_not_have(lcplan, words, reason):
    Path("args.txt").write_text(FOLDED + words)
    answer = lcplan("estimate", "--from-megatron", "args.txt", *THIRTY_TWO)
    assert answer.code == 2
    assert reason in answer.err


def test_folded_experts_are_not_compiled(lcplan):
    Path("args.txt").write_text(FOLDED + "--expert-model-parallel-size 8")
    answer = lcplan("estimate", "--from-megatron", "args.txt", *THIRTY_TWO, "--compile")
    assert answer.code == 2
    assert "no step computes its folded expert ranks" in answer.err


def test_a_search_of_folded_experts_says_that_it_compiles_none(lcplan):
    size = ("--model", "qwen3-30b-a3b", "--seq", "8k", "--hw", "dgx-h100x2", "--global-batch", "16", "--remat", "full")
    mesh = ("--mesh", "context=4,tensor=1", "--expert-fold", "8", "--scheme", "ring-zigzag", "--backend", "nccl")
    answer = lcplan("search", *size, *mesh, "--out", "run")
    assert answer.code == 0
    assert "folded expert ranks are priced, not compiled" in " ".join(answer.out.split())
