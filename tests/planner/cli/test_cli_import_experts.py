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
    assert "expert=16 does not divide the 8 experts of mixtral-8x7b; use 1, 2, 4, 8" in answer.err


def test_a_dense_model_has_no_experts_to_split(lcplan):
    Path("run.yml").write_text(SHORT + "model_name: llama3-8b\nici_expert_parallelism: 8\nici_fsdp_parallelism: 2\n")
    answer = lcplan("estimate", "--from-maxtext", "run.yml", *GPU)
    assert answer.code == 2
    assert "llama3-8b is dense and has no experts to split" in answer.err


def test_ranks_that_do_not_shard_the_state_share_no_experts(lcplan):
    text = "[training]\nlocal_batch_size = 1\nseq_len = 8192\n[parallelism]\ndata_parallel_shard_degree = 4\n"
    Path("run.toml").write_text(text + "context_parallel_degree = 4\nexpert_parallel_degree = 8\n")
    answer = lcplan("estimate", "--from-torchtitan", "run.toml", "--model", "qwen3-30b-a3b", *GPU)
    assert answer.code == 2
    assert "expert_parallel_degree=8 does not divide the 4 ranks" in answer.err
