"""Steps compiled for GB200, v5p and v5e that are not there move what the law lists, in bf16 as they train, and nothing else."""

import pytest
from as_listed import assert_as_listed, listed, without_padding
from on_target import compiled, needs_gpu_compiler, needs_tpu_compiler

from lcplan.strategy import Strategy


def gb200(mesh, **fields):
    """Four layers of Llama 3 8B, 32k."""
    return {
        "hardware": "gb200-nvl72", "model": "llama3-8b", "changes": {"layers": 4}, "seq_len": 2**15, "global_batch": 4,
        "strategy": {"mesh": mesh, **fields},
    }  # fmt: skip


def experts(mesh, **fields):
    return {**gb200(mesh, **fields), "model": "qwen3-30b-a3b", "global_batch": 8}


def windowed(mesh, document_len=None, **fields):
    """Windows in every second layer, so that both kinds of attention are there."""
    turns = {"sliding_window": 1024, "window_pattern": {"windowed": 1, "full": 1}}
    step = gb200(mesh, **fields)
    return {**step, "changes": {**step["changes"], **turns}, "document_len": document_len}


def v5p(mesh, **fields):
    return {**gb200(mesh, backend="ici", **fields), "hardware": "tpu-v5p-8"}


GPU = [
    gb200({"context": 2}),  # the ring's only hop
    gb200({"context": 2, "tensor": 2}, scheme="ring", remat="save-attention"),
    gb200({"context": 4, "fsdp": 2}, bidirectional="on"),
    gb200({"context": 4, "tensor": 2}, scheme="ulysses-ring", ulysses=2, bidirectional="on", remat="save-except-mlp"),
    gb200({"context": 8}, scheme="ulysses-ring", ulysses=2, remat="save-all"),
    gb200({"context": 4, "fsdp": 2}, scheme="all-gather", remat="save-dots"),
    gb200({"context": 4, "tensor": 2}, scheme="ulysses"),
    gb200({"context": 2, "tensor": 4}, collective_matmul="one-way"),
    gb200({"data": 2, "fsdp": 2, "context": 2, "tensor": 2}, remat="offload-layer-in"),
    gb200({"fsdp": 2, "context": 2, "tensor": 2}, remat="offload-layer-in", offload_percent=50),
    gb200({"context": 4, "tensor": 2}, microbatches=2, gather_dtype="fp32", reduce_dtype="bf16"),
    windowed({"context": 8}, scheme="ulysses-ring", ulysses=2, remat="save-attention"),
    windowed({"context": 4, "tensor": 2}, 6000, scheme="ulysses-ring", ulysses=2),
    windowed({"context": 4, "fsdp": 2}, 6000),
    experts({"context": 2, "expert": 4}),
    experts({"context": 4, "tensor": 2, "expert": 2}, moe_dispatch="capacity"),
    experts({"fsdp": 2, "context": 2, "expert": 4}, moe_dispatch="gather", remat="save-all"),
]


def v5e(model, mesh, **fields):
    """Two layers of a model whose embedding is its head, on eight chips."""
    return {
        "hardware": "tpu-v5e-8", "model": model, "changes": {"layers": 2}, "seq_len": 8192, "global_batch": 4,
        "strategy": {"mesh": mesh, "backend": "ici", **fields},
    }  # fmt: skip


TPU = [
    v5p({"context": 2, "tensor": 2}),
    v5p({"context": 4}, scheme="ring", bidirectional="on"),
    v5p({"context": 4}, microbatches=2, remat="save-dots"),  # an embedding that is reduced once for both
    {**v5p({"fsdp": 2, "context": 4}), "hardware": "tpu-v5p-16"},  # the whole of a cube, which sums
    {**v5p({"expert": 4}), "model": "qwen3-30b-a3b", "changes": {"layers": 2, "vocab": 8192}},
    v5e("qwen3-1.7b", {"fsdp": 2, "context": 4}, scheme="ulysses"),  # a head of awkward columns
    v5e("qwen3-1.7b", {"context": 8}, scheme="all-gather", microbatches=2),
    v5e("llama3.2-1b", {"fsdp": 2, "context": 2, "tensor": 2}, scheme="ring", remat="save-attention"),
]


def named(request):
    strategy = Strategy.model_validate(request["strategy"])
    dispatch = f" {strategy.moe_dispatch}" if strategy.mesh.expert > 1 else ""
    masks = " windows" * ("sliding_window" in request["changes"]) + " documents" * bool(request.get("document_len"))
    return f"{request['hardware']} {request['model']} {strategy.label}{dispatch}{masks}".replace(" ", ",")


@pytest.mark.slow
@pytest.mark.gpu_target
@needs_gpu_compiler
@pytest.mark.parametrize("step", GPU, ids=named)
def test_a_gb200_moves_what_is_listed(step):
    got = compiled(**step)
    assert got["kernels"] == ["cudnn"]
    assert_as_listed(got["collectives"], listed(step))


@pytest.mark.slow
@pytest.mark.tpu_target
@needs_tpu_compiler
@pytest.mark.parametrize("step", TPU, ids=named)
def test_a_tpu_moves_what_is_listed(step):
    wanted = listed(step)
    assert_as_listed(without_padding(compiled(**step)["collectives"], wanted), wanted)
