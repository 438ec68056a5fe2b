"""Work: a compile or timing with its target, key and task under one toolchain."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Protocol

from lcplan.evidence.measurement import Compiled
from lcplan.formats.errors import BadInputError
from lcplan.spec.hardware import HardwareSpec
from lcplan.strategy.attention_kernel import AttentionKernel, attention_kernel, shortest_chunk
from planner.measure.targets.target import Target, one_device, target_for
from planner.measure.targets.toolchain import Toolchain
from planner.measure.workers.job import CompileJob, Program, Purpose, WorkerJob, job_key, resolve
from planner.measure.workers.pool import Task
from planner.measure.workers.process import Launch


class Layout(Protocol):
    """The strategy of a job, as engines and the study see it."""

    @property
    def devices(self) -> int:
        """Devices that it takes."""

    def model_dump(self, *, mode: str = "python") -> dict[str, Any]:
        """Return the strategy's document."""


class Job(Protocol):
    """A program on a piece of hardware under a strategy."""

    @property
    def hardware(self) -> HardwareSpec:
        """The machine."""

    @property
    def strategy(self) -> Layout:
        """The layout."""

    def __hash__(self) -> int:
        """Hash it: callers keep results by job."""


class Work(ABC):
    """A job with its target, key and task under one toolchain."""

    purpose: Purpose
    toolchain: Toolchain
    target: Target
    key: str
    row: type[Compiled] = Compiled
    """The kind of row that a compile of it makes."""

    @property
    @abstractmethod
    def job(self) -> Job:
        """The job."""

    @property
    def task(self) -> Task:
        """The task for a worker process; its ``id`` is the job's key."""
        return self.task_with(None)

    @abstractmethod
    def task_with(self, executables: Path | None) -> Task:
        """The same task; a timing reads the executable that the compile of its program wrote to ``executables``."""


class ProgramWork(Work):
    """A compile or timing of one of lcplan's own programs."""

    def __init__(self, job: CompileJob, purpose: Purpose, *, toolchain: Toolchain) -> None:
        self._job, self.purpose, self.toolchain = job, purpose, toolchain
        target = target_for(job.strategy, job.hardware, toolchain=toolchain)
        if purpose == "time" and job.hardware.kind != "cpu" and target.platform == "cpu":
            raise BadInputError(f"toolchain {toolchain.python} cannot run a step on {job.hardware.name}: {target.note}")
        if purpose == "slice":
            target = one_device(target)
        self.target = target.model_copy(update={"at_hand": True}) if purpose == "time" else target
        kernel = kernel_for(job, self.target, toolchain=toolchain)
        self.resolved: WorkerJob = resolve(job, self.target, purpose=purpose, kernel=kernel)
        self.key = job_key(job, self.resolved, toolchain=toolchain)

    @property
    def job(self) -> CompileJob:
        """The job."""
        return self._job

    def task_with(self, executables: Path | None) -> Task:
        """The task; a timing reads the executable that the compile of its program wrote to ``executables``."""
        variables = self.target.environment
        if self.target.at_hand and self.target.platform == "cuda":
            pool = self.job.hardware.pool_ratio(self.job.strategy.mesh.communicators)
            variables["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{pool:.3f}"
        launch = Launch(worker_command(self.toolchain.python, self.job.program), tuple(sorted(variables.items())))
        request = {"id": self.key, "job": self.resolved.model_dump(mode="json")}
        if executables is not None and self._is_timed_as_compiled:
            request["executables"] = str(executables.absolute() / self._program_key)
        counted = self.target.at_hand and self.target.platform != "cpu"  # an allocator's peak is its process's: it only grows
        return Task(launch, request, fresh=counted)

    @property
    def _is_timed_as_compiled(self) -> bool:
        """Whether compile and timing have one executable: a host's have; for a GPU it is compiled without one."""
        return self.job.hardware.kind == "cpu" and self.purpose != "slice"

    @property
    def _program_key(self) -> str:
        """The key of the compile."""
        target = self.target.model_copy(update={"at_hand": False})
        compiled = self.resolved.model_copy(update={"purpose": "compile", "target": target})
        return job_key(self.job, compiled, toolchain=self.toolchain)


def worker_command(python: str, program: Program) -> tuple[str, ...]:
    """How a worker starts under ``python``."""
    boot = str(Path(__file__).parent / "workers" / "boot.py")
    return (python, boot, str(os.getpid()), *(f"{name}={folder}" for name, folder in program.folders.items()))


def kernel_for(job: CompileJob, target: Target, *, toolchain: Toolchain) -> AttentionKernel:
    """The attention kernel of a chunk for the target under the toolchain.

    ``lcplan.strategy.attention_kernel`` decides, as it does for the cost model. A toolchain without cuDNN runs blockwise
    attention, and so does a program that is compiled for host devices in place of its hardware's.
    """
    gpu = job.hardware.device.gpu
    kernel = attention_kernel(
        job.model,
        kind=target.kind,
        precision=job.workload.precision,
        shortest_chunk=shortest_chunk(job.workload.seq_len, job.strategy.mesh.context),
        capability=None if gpu is None else gpu.compute_capability,
        fused=job.hardware.fused_attention,
    )
    return "blockwise" if kernel == "cudnn" and "cudnn" not in toolchain.kernels else kernel
