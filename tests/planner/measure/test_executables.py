"""What a compile leaves is what the timing of the same program runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from measuring import MakeJob

from planner.measure.jobs import compile_jobs, time_jobs
from planner.measure.targets.toolchain import Toolchain
from planner.measure.work import ProgramWork
from planner.measure.workers.executables import kept_in
from planner.measure.workers.pool import PoolLimits


def steps(folder: Path) -> list[str]:
    """Executables of the step itself, by their names in jax's cache."""
    return sorted(file.name for file in folder.rglob("jit_step-*-cache"))


def test_a_timing_reads_what_the_compile_left(toolchain: Toolchain, make_job: MakeJob, tmp_path: Path) -> None:
    job, pool = make_job(context=2), PoolLimits(executables=tmp_path)
    ((_, bare),) = compile_jobs([job], toolchain=toolchain, pool=PoolLimits(), store=None)
    ((_, first),) = compile_jobs([job], toolchain=toolchain, pool=pool, store=None)
    left = steps(tmp_path)
    assert len(left) == 1
    ((_, timed),) = time_jobs([job], toolchain=toolchain, pool=pool, store=None)
    assert (timed.rung, timed.error) == ("timed:full", None)
    assert steps(tmp_path) == left  # the timing asked for the same executable, and made no other
    ((_, again),) = compile_jobs([job], toolchain=toolchain, pool=pool, store=None)
    same = {"total_bytes", "temp_bytes", "collectives", "kernels", "schedule", "warnings", "error"}
    assert bare.model_dump(include=same) == first.model_dump(include=same) == again.model_dump(include=same)


def test_a_broken_executable_costs_a_compile(toolchain: Toolchain, make_job: MakeJob, tmp_path: Path) -> None:
    job, pool = make_job(context=2), PoolLimits(executables=tmp_path)
    list(compile_jobs([job], toolchain=toolchain, pool=pool, store=None))
    for file in tmp_path.rglob("jit_step-*-cache"):
        file.write_bytes(file.read_bytes()[:100])
    ((_, timed),) = time_jobs([job], toolchain=toolchain, pool=pool, store=None)
    assert timed.error is None


def test_which_jobs_share_one(toolchain: Toolchain, make_job: MakeJob, tmp_path: Path) -> None:
    works = [
        ProgramWork(make_job(context=size), purpose, toolchain=toolchain) for size in (2, 4) for purpose in ("compile", "time")
    ]
    folders = [work.task_with(tmp_path).request["executables"] for work in works]
    assert folders[0] == folders[1] != folders[2] == folders[3]
    assert all("executables" not in work.task.request for work in works)
    assert "executables" not in ProgramWork(make_job(context=2), "slice", toolchain=toolchain).task_with(tmp_path).request


def test_a_gpu_is_not_compiled_for_as_it_compiles_for_itself(
    gpu_toolchain: Toolchain, make_job: MakeJob, tmp_path: Path
) -> None:
    for purpose in ("compile", "time"):
        work = ProgramWork(make_job("dgx-h100", context=2), purpose, toolchain=gpu_toolchain)
        assert "executables" not in work.task_with(tmp_path).request


def test_a_compile_begins_with_an_empty_folder(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    folder.mkdir(mode=0o700)
    (folder / "old").touch()
    with kept_in(str(folder), anew=False):
        assert (folder / "old").exists()
    with kept_in(str(folder), anew=True):
        assert not (folder / "old").exists()
    with pytest.raises(RuntimeError, match="the step's own"), kept_in(str(folder), anew=True):
        raise RuntimeError("the step's own")


def test_executables_of_others_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import jax

    folder, elsewhere = tmp_path / "program", tmp_path / "elsewhere"

    def is_kept() -> bool:
        with kept_in(str(folder), anew=False):
            return jax.config.jax_compilation_cache_dir == str(folder) and (folder / "theirs").exists()

    def fill(place: Path) -> None:
        place.mkdir(mode=0o700)
        (place / "theirs").touch()

    fill(folder)
    assert is_kept()
    folder.chmod(0o777)  # anyone may have put a file there
    assert not is_kept()
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / "theirs").symlink_to(tmp_path / "anything")
    assert not is_kept()
    folder.rmdir()
    fill(elsewhere)
    folder.symlink_to(elsewhere)
    assert not is_kept()
    assert (elsewhere / "theirs").exists()  # a link is no folder of ours to empty
    folder.unlink()
    fill(folder)
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    assert not is_kept()
