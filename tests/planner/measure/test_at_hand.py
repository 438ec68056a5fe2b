"""Which devices are here, by the driver's own list, and timing on them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from measuring import MakeJob

from lcplan import catalog
from lcplan.formats.errors import StageFailedError
from planner.measure.jobs import time_jobs
from planner.measure.targets.at_hand import devices_at_hand, gpu_names
from planner.measure.targets.toolchain import Toolchain
from planner.measure.work import ProgramWork
from planner.measure.workers.pool import PoolLimits


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    gpu_names.cache_clear()
    yield
    gpu_names.cache_clear()


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ``nvidia-smi`` that says what the file beside it holds."""
    script = tmp_path / "nvidia-smi"
    script.write_text(f'#!/bin/sh\ncat "{tmp_path}/says" || exit 9\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path / "says"


def test_gpus_of_the_hardwares_kind_count(driver: Path) -> None:
    driver.write_text("NVIDIA H100 80GB HBM3\n" * 3 + "NVIDIA H200\n")
    assert devices_at_hand(catalog.hardware("dgx-h100")) == 3
    assert devices_at_hand(catalog.hardware("dgx-h200")) == 1
    assert devices_at_hand(catalog.hardware("dgx-b200")) == 0
    assert devices_at_hand(catalog.hardware("tpu-v5p-64")) == 0


@pytest.mark.parametrize(("visible", "count"), [("0,1", 2), ("3", 1), ("", 0), ("-1", 0)])
def test_hidden_gpus_do_not(driver: Path, monkeypatch: pytest.MonkeyPatch, visible: str, count: int) -> None:
    driver.write_text("NVIDIA H100 80GB HBM3\n" * 4)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert len(gpu_names()) == count


def test_a_driver_that_fails_or_is_not_there(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert gpu_names() == ()  # it exits 9
    gpu_names.cache_clear()
    monkeypatch.setenv("PATH", "/nowhere")
    assert gpu_names() == ()


def test_a_timing_at_hand_runs_on_cuda_and_is_another_job_than_its_compile(gpu_toolchain: Toolchain, make_job: MakeJob) -> None:
    compiled, timed = (
        ProgramWork(make_job("dgx-h100", context=2), purpose, toolchain=gpu_toolchain) for purpose in ("compile", "time")
    )
    assert dict(compiled.task.launch.environment)["JAX_PLATFORMS"] == "cpu"
    environment = dict(timed.task.launch.environment)
    assert environment["JAX_PLATFORMS"] == "cuda"
    assert 0.5 < float(environment["XLA_PYTHON_CLIENT_MEM_FRACTION"]) < 1
    assert compiled.key != timed.key
    assert timed.task.fresh  # an allocator's peak is its process's
    assert not compiled.task.fresh


def test_gpus_that_are_not_here(driver: Path, gpu_toolchain: Toolchain, make_job: MakeJob) -> None:
    driver.write_text("NVIDIA H100 80GB HBM3\n")
    with pytest.raises(StageFailedError, match="dgx-h100: a step on 2 devices cannot be timed, 1 of them are here"):
        list(time_jobs([make_job("dgx-h100", context=2)], toolchain=gpu_toolchain, pool=PoolLimits(), store=None))


@pytest.mark.gpu
def test_a_step_on_the_gpus_of_this_machine(gpu_toolchain: Toolchain, make_job: MakeJob) -> None:
    kinds = ("dgx-h100", "dgx-h200", "dgx-a100-80", "dgx-a100-40", "dgx-b200", "gb200-nvl72")
    here = next((name for name in kinds if devices_at_hand(catalog.hardware(name))), None)
    if here is None:
        pytest.skip("no GPU of the catalogue is here")
    ((_, row),) = time_jobs([make_job(here, context=1)], toolchain=gpu_toolchain, pool=PoolLimits(), store=None)
    assert (row.rung, row.error) == ("timed:full", None)
    assert row.device.startswith("1 x NVIDIA")
    assert row.loss is not None
    assert math.isfinite(row.loss)
    assert row.peak_bytes is not None
    assert row.peak_bytes > 0
