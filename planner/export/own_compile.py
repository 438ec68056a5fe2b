"""``--compile``: the trainer compiles its own step from the exported file, for hardware that is absent."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from lcplan.formats.errors import BadInputError, StageFailedError
from planner.export.python import python_of
from planner.export.run import Export
from planner.measure.workers.process import clean_environment
from planner.trainers import Job, Trainer, all_trainers
from planner.trainers.common.own_compile import OwnCompiler, OwnMemory
from planner.trainers.registry import own_compiler

TIMEOUT_S = 1800.0


def compile_export(export: Export, folder: Path, *, python: str | None = None) -> OwnMemory:
    """Compile the exported file with the trainer's own command.

    Raises
    ------
    BadInputError
        The trainer has no such command for the plan's hardware, or the plan takes a part of a slice.
    StageFailedError
        The command failed; its last words.
    """
    job, target = export.translation.job, export.translation.trainer
    _check(job, target)
    compiler = own_compiler(target.name)
    start = time.perf_counter()
    text = _output(compiler, job, python=python_of(target.name, python), folder=folder)
    return memory_of(compiler, text, topology=compiler.target(job), seconds=time.perf_counter() - start)


def _check(job: Job, target: Trainer) -> None:
    if target.compiles != job.hardware.kind:
        able = [f"--to {one.name} and a plan for {one.compiles.upper()}" for one in all_trainers() if one.compiles]
        raise BadInputError(f"--compile runs the trainer's own compile command; it needs {', or '.join(able)}")
    if job.strategy.devices != job.hardware.devices:
        raise BadInputError(
            f"--compile: {job.hardware.name} has {job.hardware.devices} devices, the plan takes {job.strategy.devices}"
        )


def _output(compiler: OwnCompiler, job: Job, *, python: str, folder: Path) -> str:
    try:
        done = subprocess.run(
            [python, *compiler.words(job)],
            cwd=folder,
            env=clean_environment(tuple(compiler.environment.items())),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StageFailedError(f"{python}: {compiler.command} did not run: {error}") from None
    return done.stdout + done.stderr


def memory_of(compiler: OwnCompiler, text: str, *, topology: str, seconds: float) -> OwnMemory:
    """The memory that the command printed.

    Raises
    ------
    StageFailedError
        It printed none; its last words.
    """
    sizes = compiler.read_memory(text)
    if sizes is None:
        raise StageFailedError(f"{compiler.label}'s {compiler.command} failed: {' '.join(text.split())[-800:]}")
    return OwnMemory(
        label=compiler.label,
        topology=topology,
        argument_bytes=sizes["argument"],
        output_bytes=sizes["output"],
        temp_bytes=sizes["temp"],
        alias_bytes=sizes["alias"],
        seconds=round(seconds, 1),
    )
