"""Compiles for several racks and slices: the topology has as many partitions, and collectives name the level they cross."""

from __future__ import annotations

import pytest
from measuring import MakeJob

from lcplan import catalog
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy
from planner.measure.jobs import compile_jobs
from planner.measure.targets.toolchain import Toolchain
from planner.measure.workers.job import STEP, CompileJob
from planner.measure.workers.pool import PoolLimits

LIMITS = PoolLimits(jobs=1, wall_s=600)


def levels(row, op="collective-permute"):
    return {(use.axis, use.level) for use in row.collectives if use.op == op}


@pytest.mark.gpu_target
def test_a_ring_over_two_racks_crosses_the_network(gpu_toolchain: Toolchain, make_job: MakeJob) -> None:
    jobs = [make_job("gb200-nvl72x2", context=16, segment=8), make_job("gb200-nvl72x2", context=16)]
    rows = dict(compile_jobs(jobs, toolchain=gpu_toolchain, pool=LIMITS, store=None))
    assert [(rows[job].target, rows[job].error) for job in jobs] == [("gb200 2x2x4", None), ("gb200 1x4x4", None)]
    assert [levels(rows[job]) for job in jobs] == [{("context", "network")}, {("context", None)}]


@pytest.mark.tpu_target
def test_a_ring_inside_each_of_two_slices_stays_there(tpu_toolchain: Toolchain, make_job: MakeJob) -> None:
    jobs = [make_job("tpu-v5e-8x2", data=2, context=8), make_job("tpu-v5e-8x2", context=16)]
    rows = dict(compile_jobs(jobs, toolchain=tpu_toolchain, pool=LIMITS, store=None))
    assert [(rows[job].target, rows[job].error) for job in jobs] == [("tpu v5e:2x4 x2", None)] * 2
    assert [levels(rows[job]) for job in jobs] == [{("context", "domain")}, {("context", "domain"), ("context", "network")}]
    assert {use.backend for use in rows[jobs[1]].collectives if use.level == "network"} == {"dcn"}


def step_of_8b(hw: str, mesh: Mesh, *, seq: int, batch: int, **knobs) -> CompileJob:
    return CompileJob(
        model=catalog.model("llama3.1-8b"),
        hardware=catalog.hardware(hw),
        workload=Workload(seq_len=seq, global_batch=batch),
        strategy=Strategy(mesh=mesh, loss_chunk_tokens=1024, remat="full", scheme="ring-zigzag", **knobs),
        program=STEP,
    )


@pytest.mark.slow
@pytest.mark.gpu_target
def test_8b_on_64_gpus_of_each_of_two_racks(gpu_toolchain: Toolchain) -> None:
    job = step_of_8b("gb200-nvl72x2", Mesh(data=2, fsdp=8, context=8), seq=2**17, batch=16, segment=64, backend="nccl")
    ((_, row),) = compile_jobs([job], toolchain=gpu_toolchain, pool=LIMITS, store=None)
    assert (row.target, row.error) == ("gb200 2x16x4", None)
    assert row.total_bytes is not None
    assert row.total_bytes < job.hardware.usable_bytes
    found = {(use.axis, use.level) for use in row.collectives}
    assert {("context", "domain"), ("fsdp+context", "domain"), ("data", "network")} <= found
    assert ("context", "network") not in found


@pytest.mark.slow
@pytest.mark.tpu_target
def test_8b_on_two_slices(tpu_toolchain: Toolchain) -> None:
    job = step_of_8b("tpu-v5e-16x2", Mesh(data=2, fsdp=16), seq=2**13, batch=32, backend="ici")
    ((_, row),) = compile_jobs([job], toolchain=tpu_toolchain, pool=LIMITS, store=None)
    assert (row.target, row.error) == ("tpu v5e:4x4 x2", None)
    assert row.total_bytes is not None
    assert row.total_bytes < job.hardware.usable_bytes
    found = {(use.axis, use.level) for use in row.collectives}
    assert ("fsdp", "domain") in found
    assert any(level == "network" for _, level in found)
