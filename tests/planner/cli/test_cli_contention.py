"""The contention of NCCL's rings next to a tensor axis, through ``lcplan estimate``."""

from pathlib import Path

MEGATRON = (
    "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention "
    "--num-query-groups 8 --swiglu --normalization RMSNorm --position-embedding-type rope --rotary-base 500000 "
    "--disable-bias-linear --untie-embeddings-and-output-weights --vocab-size 128256 --micro-batch-size 1 "
    "--global-batch-size 8 --seq-length 131072 --max-position-embeddings 131072 --tensor-model-parallel-size 2 "
    "--context-parallel-size 8 --sequence-parallel --bf16 --use-distributed-optimizer --cp-comm-type p2p"
)
OWN = (
    "--model",
    "llama3-8b",
    "--seq",
    "128k",
    "--global-batch",
    "8",
    "--mesh",
    "context=8,tensor=2",
    "--scheme",
    "ring-zigzag",
)
GPUS = ("--hw", "dgx-h100x2", "--format", "json")


def contention_share(answer):
    """The contention of a step as a share of its time."""
    assert answer.code == 0, answer.err
    estimate = answer.json["candidate"]["estimate"]
    return estimate["time_s"]["contention"] / estimate["step_s"]


def test_only_a_step_of_jax_loses_a_fifth_to_nccl_next_to_tensor(lcplan):
    Path("job.txt").write_text(MEGATRON)
    megatron = contention_share(lcplan("estimate", "--from-megatron", "job.txt", "--devices", "16", *GPUS))
    jax = contention_share(lcplan("estimate", *OWN, "--remat", "save-all", "--backend", "nccl", *GPUS))
    assert 0 < megatron < 0.08
    assert 0.2 < jax < 0.3
