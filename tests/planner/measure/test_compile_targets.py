"""Compiles for machines that are not there: what GPU and TPU executables really show."""

from __future__ import annotations

import pytest
from measuring import MakeJob

from lcplan import catalog
from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy
from planner.measure.jobs import compile_jobs
from planner.measure.targets.backends import backend_verdict
from planner.measure.targets.toolchain import Toolchain
from planner.measure.workers.job import CompileJob
from planner.measure.workers.pool import PoolLimits

LIMITS = PoolLimits(jobs=2, wall_s=300)


@pytest.mark.gpu_target
def test_each_real_gpu_backend_shows_in_the_ring(gpu_toolchain: Toolchain, make_job: MakeJob) -> None:
    backends = [name for name in ("nccl", "nvshmem", "symmetric") if backend_verdict(name, gpu_toolchain.jax or "") is True]
    jobs = [make_job("gb200-nvl72", context=4, tensor=2, backend=name) for name in backends]
    rows = dict(compile_jobs(jobs, toolchain=gpu_toolchain, pool=LIMITS, store=None))
    for job in jobs:
        row = rows[job]
        assert (row.rung, row.target, row.error) == ("compiled:target", "gb200 1x2x4", None)
        permutes = [use for use in row.collectives if use.op == "collective-permute"]
        # 2 layers x 4 steps x (forward, recomputed, backward) of 64 local rows of 64 bf16
        assert [(use.axis, use.bytes, use.calls) for use in permutes] == [("context", 64 * 64 * 2, 24)]
        assert {use.backend for use in permutes} == {job.strategy.backend}


@pytest.mark.gpu_target
def test_nodes_without_nvlink_between_them(gpu_toolchain: Toolchain, make_job: MakeJob) -> None:
    job = make_job("dgx-h100x4", data=2, context=8)
    ((_, row),) = compile_jobs([job], toolchain=gpu_toolchain, pool=LIMITS, store=None)
    assert (row.target, row.error) == ("h100-sxm-80gb 2x1x8", None)


@pytest.mark.gpu_target
def test_the_real_step_gets_cudnn_attention(gpu_toolchain: Toolchain) -> None:
    if "cudnn" not in gpu_toolchain.kernels:
        pytest.skip("no cuDNN beside the CUDA plugin")
    job = CompileJob(
        model=ModelSpec(name="small", layers=2, d_model=256, d_ff=512, heads=4, kv_heads=2, head_dim=64, vocab=512),
        hardware=catalog.hardware("dgx-h100"),
        workload=Workload(seq_len=1024, global_batch=2),
        strategy=Strategy(mesh=Mesh(context=2, tensor=2), backend="nccl", loss_chunk_tokens=512),
    )
    ((_, row),) = compile_jobs([job], toolchain=gpu_toolchain, pool=LIMITS, store=None)
    assert row.error is None
    assert row.kernels == ("cudnn",)


@pytest.mark.slow
@pytest.mark.gpu_target
def test_a_larger_threshold_leaves_fewer_and_larger_collectives(gpu_toolchain: Toolchain) -> None:
    presets = ("default", "combined-64mib", "combined", "combined-1gib")
    jobs = [
        CompileJob(
            model=catalog.model("llama3-8b").model_copy(update={"layers": 3}),
            hardware=catalog.hardware("gb200-nvl72"),
            workload=Workload(seq_len=1024, global_batch=4),
            strategy=Strategy(mesh=Mesh(fsdp=4), backend="nccl", scheduler=preset, loss_chunk_tokens=1024),
        )
        for preset in presets
    ]
    rows = dict(compile_jobs(jobs, toolchain=gpu_toolchain, pool=LIMITS, store=None))
    found = [[use for use in rows[job].collectives if use.op == "all-gather"] for job in jobs]
    calls = [sum(use.calls for use in uses) for uses in found]
    assert calls[0] > calls[1] > calls[2] > calls[3]
    assert len({sum(use.total_bytes for use in uses) for uses in found}) == 1
    largest = [max(use.bytes for use in uses) for uses in found]
    assert largest == sorted(largest)


@pytest.mark.tpu_target
def test_tpu_slices_and_parts_of_them(tpu_toolchain: Toolchain, make_job: MakeJob) -> None:
    jobs = [
        make_job("tpu-v5p-64", context=4, tensor=2),
        make_job("tpu-v5e-8", context=2),
        make_job("tpu-v5e-8x2", data=2, context=8),
    ]
    rows = dict(compile_jobs(jobs, toolchain=tpu_toolchain, pool=LIMITS, store=None))
    part, pair = rows[jobs[0]], rows[jobs[1]]
    assert (part.rung, part.target, part.error) == ("compiled:target", "tpu v5p:2x2x2", None)
    assert (pair.target, pair.error) == ("tpu v5e:1x2", None)
    assert (rows[jobs[2]].target, rows[jobs[2]].error) == ("tpu v5e:2x4 x2", None)
    permutes = [use for use in part.collectives if use.op == "collective-permute"]
    assert sum(use.calls for use in permutes) == 24
    assert {(use.axis, use.backend) for use in permutes} == {("context", "ici")}
