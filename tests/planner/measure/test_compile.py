"""compile_jobs with real workers on host devices: rows, the store, programs that go wrong, kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from measuring import MakeJob, MemoryStore

from lcplan.formats.errors import StageFailedError
from planner.measure.jobs import compile_jobs
from planner.measure.targets.target import target_for
from planner.measure.targets.toolchain import Toolchain
from planner.measure.work import kernel_for
from planner.measure.workers.job import CompileJob, Program
from planner.measure.workers.pool import PoolLimits

Odd = Callable[[str], Program]
LIMITS = PoolLimits(jobs=1, wall_s=120)


def test_a_row_of_the_ring_on_host_devices(toolchain: Toolchain, make_job: MakeJob) -> None:
    job = make_job(context=2, tensor=2, layers=3)
    ((same, row),) = compile_jobs([job], toolchain=toolchain, pool=LIMITS, store=None)
    assert same is job
    assert (row.rung, row.target, row.jax, row.error) == ("compiled:target", "cpu x4", toolchain.jax, None)
    assert row.compile_s > 0
    # 3 layers of 64 x 64 bf16 split over context x tensor, and 128 local rows of 64 bf16
    assert row.argument_bytes == 3 * 64 * 64 * 2 // 4 + 128 * 64 * 2
    assert row.alias_bytes == 3 * 64 * 64 * 2 // 4  # the weights are donated
    parts = (row.argument_bytes, row.output_bytes, row.temp_bytes, row.alias_bytes)
    argument, output, temp, alias = (part or 0 for part in parts)
    assert row.total_bytes == argument + output + temp - alias
    ring = [use for use in row.collectives if use.op == "collective-permute"]
    # forward, recomputed, backward: 3 layers x 2 steps each, widened to fp32 by the host compiler
    assert [(use.axis, use.bytes, use.calls, use.backend) for use in ring] == [("context", 128 * 64 * 4, 18, "host")]


def test_nothing_is_compiled_twice(toolchain: Toolchain, make_job: MakeJob, store: MemoryStore) -> None:
    jobs = [make_job(context=2), make_job(fsdp=2), make_job(context=2)]
    first = dict(enumerate(compile_jobs(jobs, toolchain=toolchain, pool=LIMITS, store=store)))
    assert len(first) == 3
    assert len(store.kept) == 2  # the same job twice is compiled once
    assert not store.served
    again = list(compile_jobs(jobs, toolchain=toolchain, pool=LIMITS, store=store))
    assert store.served == set(jobs)
    assert {row.finished_at for _, row in again} <= {row.finished_at for _, row in first.values()}


def test_a_row_that_this_version_cannot_read_is_compiled_again(
    toolchain: Toolchain, make_job: MakeJob, store: MemoryStore
) -> None:
    job = make_job(context=2)
    list(compile_jobs([job], toolchain=toolchain, pool=LIMITS, store=store))
    (key,) = store.kept
    store.kept[key] = {"rung": "of another time"}
    ((_, row),) = compile_jobs([job], toolchain=toolchain, pool=LIMITS, store=store)
    assert row.total_bytes is not None
    assert not store.served


@pytest.mark.parametrize(
    ("name", "words", "kept"),
    [
        ("aborts", "worker died of SIGABRT: Check failed: tiles.size() == 1 (2 vs. 1) no such layout", False),
        ("refuses", "BadInputError: tensor=2 does not divide heads=3; choose a tensor size that divides it", True),
        ("is_not_there", "ModuleNotFoundError: No module named 'odd_programs.is_not_there'", False),
    ],
)
def test_a_program_that_fails_is_a_row(
    name: str, words: str, kept: bool, *, toolchain: Toolchain, make_job: MakeJob, odd: Odd, store: MemoryStore
) -> None:
    jobs = [make_job(context=2, program=odd(name)), make_job(context=2)]
    rows = dict(compile_jobs(jobs, toolchain=toolchain, pool=LIMITS, store=store))
    assert rows[jobs[0]].error == words
    assert rows[jobs[0]].total_bytes is None
    assert rows[jobs[1]].error is None
    assert len(store.kept) == 1 + kept


def test_time_outs_are_rows_and_tried_again(
    toolchain: Toolchain, make_job: MakeJob, odd: Odd, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ODD_PID_FILE", str(tmp_path / "pid"))
    job = make_job(context=2, program=odd("hangs"))
    ((_, row),) = compile_jobs([job], toolchain=toolchain, pool=PoolLimits(wall_s=4), store=store)
    assert row.error == "no result after 4 s; the worker was killed"
    assert store.kept == {}
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_step_that_eats_memory_is_a_row(toolchain: Toolchain, make_job: MakeJob, odd: Odd, store: MemoryStore) -> None:
    job = make_job(context=2, program=odd("eats"))
    limits = PoolLimits(wall_s=60, memory_bytes=2**30)
    ((_, row),) = compile_jobs([job], toolchain=toolchain, pool=limits, store=store)
    assert row.error is not None
    assert "above its 1.0 GiB, and was killed" in row.error
    assert store.kept == {}


def test_what_a_program_prints_reaches_neither_result_nor_user(
    toolchain: Toolchain, make_job: MakeJob, odd: Odd, capfd: pytest.CaptureFixture[str]
) -> None:
    ((_, row),) = compile_jobs([make_job(context=2, program=odd("babbles"))], toolchain=toolchain, pool=LIMITS, store=None)
    assert row.error is None
    assert row.collectives
    assert capfd.readouterr() == ("", "")


def test_a_strategy_that_no_torus_holds_is_a_row(tpu_toolchain: Toolchain, make_job: MakeJob) -> None:
    ((_, row),) = compile_jobs([make_job("tpu-v5p-64", context=7)], toolchain=tpu_toolchain, pool=LIMITS, store=None)
    assert row.error is not None
    assert "7 devices are no block" in row.error


def test_without_the_targets_plugin_the_host_stands_in(toolchain: Toolchain, make_job: MakeJob) -> None:
    bare = toolchain.model_copy(update={"targets": {**toolchain.targets, "gpu": 'no CUDA plugin: pip install "lcplan[gpu]"'}})
    ((_, row),) = compile_jobs([make_job("dgx-h100", context=2)], toolchain=bare, pool=LIMITS, store=None)
    assert (row.rung, row.error) == ("compiled:host", None)
    assert row.warnings == ('compiled for host devices: no CUDA plugin: pip install "lcplan[gpu]"',)


def test_a_toolchain_without_jax_fails_the_stage(toolchain: Toolchain, make_job: MakeJob) -> None:
    empty = toolchain.model_copy(update={"targets": {"gpu": "x", "tpu": "x", "cpu": "not installed: jax"}})
    with pytest.raises(StageFailedError, match="cannot compile: not installed: jax"):
        list(compile_jobs([make_job(context=2)], toolchain=empty, pool=LIMITS, store=None))


def test_cudnn_is_chosen_where_it_fits(toolchain: Toolchain, make_job: MakeJob) -> None:
    able = toolchain.model_copy(
        update={
            "targets": {"gpu": True, "tpu": True, "cpu": True},
            "versions": {**toolchain.versions, "cuda12_plugin": "0.10.1", "cudnn": "9.28.0"},
        }
    )

    def chosen(job: CompileJob) -> str:
        target = target_for(job.strategy, job.hardware, toolchain=able)
        return kernel_for(job, target, toolchain=able)

    job = make_job("dgx-h100", context=2)
    assert chosen(job) == "cudnn"
    wide = {"model": job.model.model_copy(update={"head_dim": 256})}
    assert chosen(job.model_copy(update=wide)) == "cudnn"  # from compute capability 9.0, but not on Blackwell
    assert chosen(make_job("gb200-nvl72", context=2).model_copy(update=wide)) == "blockwise"
    assert chosen(job.model_copy(update={"workload": job.workload.model_copy(update={"precision": "fp32"})})) == "blockwise"
    assert chosen(make_job("tpu-v5p-64", context=2)) == "blockwise"


PARENT = """
import sys
sys.path.insert(0, {folder!r})
from measuring import odd_program, ring_job
from planner.measure import PoolLimits, compile_jobs, probe
for _ in compile_jobs([ring_job(context=2, program=odd_program("hangs"))], toolchain=probe(), pool=PoolLimits(), store=None):
    pass
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_killed_parent_leaves_no_worker(number: signal.Signals, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    code = PARENT.format(folder=str(Path(__file__).parent))
    environment = {**os.environ, "ODD_PID_FILE": str(file)}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.PIPE, text=True) as parent:
        end = time.monotonic() + 60
        while time.monotonic() < end and parent.poll() is None and not (file.exists() and file.read_text()):
            time.sleep(0.05)
        assert file.exists(), parent.communicate()[1]
        worker = int(file.read_text())
        os.kill(worker, 0)  # it lives
        parent.send_signal(number)
        parent.communicate(timeout=30)
    end = time.monotonic() + 10
    while time.monotonic() < end and Path(f"/proc/{worker}").exists():
        time.sleep(0.05)
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)
