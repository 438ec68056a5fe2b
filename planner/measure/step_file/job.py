"""The seam: a compile of a user's step as a job of the same engines, workers and study as lcplan's own programs.

The program of a job is a ``StepFile`` that the user named on the command line. Nothing that lcplan reads (a plan, a request, a
message to a worker of another machine) can name one: only ``StepWork`` makes the request that a worker runs a file for, and a
worker runs it only while its content has the hash of the job.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from lcplan.evidence.execution import StepCompiled
from lcplan.formats.frozen import Frozen
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.own_step import StepStrategy
from lcplan.strategy import Mesh, Strategy
from planner.measure.step_file.file import StepFile
from planner.measure.targets.backends import devices_per_process
from planner.measure.targets.target import Target, target_for
from planner.measure.targets.toolchain import Toolchain
from planner.measure.work import Work, worker_command
from planner.measure.workers.job import Program, Purpose
from planner.measure.workers.pool import Task
from planner.measure.workers.process import Launch

WORKER = Program(name="own_step", module="", packages=("lcplan", "planner"))
"""lcplan's part of the worker; the program itself is the user's."""


class StepJob(Frozen):
    """One strategy of a user's step on a machine."""

    file: StepFile
    hardware: HardwareSpec
    strategy: StepStrategy
    workload: dict[str, int]

    def __hash__(self) -> int:
        """Hash the fields that differ between jobs of one search."""
        return hash((self.file.digest, self.hardware.name, self.strategy, tuple(self.workload.items())))


class WorkerStepJob(Frozen):
    """A job as it goes to a worker: with all that the result depends on."""

    path: str
    digest: str
    strategy: StepStrategy
    workload: dict[str, int]
    target: Target
    processes: int
    """Processes of the job on the hardware, which ``jax.process_count()`` answers."""


class StepWork(Work):
    """A compile of a user's step with its target, key and task under one toolchain."""

    row = StepCompiled
    purpose: Purpose = "compile"

    def __init__(self, job: StepJob, *, toolchain: Toolchain, flags: dict[str, str | bool] | None = None) -> None:
        self._job, self.toolchain = job, toolchain
        like = stand_in(job.strategy, job.hardware)
        target = target_for(like, job.hardware, toolchain=toolchain)
        self.target = target.model_copy(update={"compiler_options": {**target.compiler_options, **(flags or {})}})
        self.resolved = WorkerStepJob(
            path=job.file.path,
            digest=job.file.digest,
            strategy=job.strategy,
            workload=job.workload,
            target=self.target,
            processes=-(-job.strategy.devices // devices_per_process(like, job.hardware)),
        )
        self.key = self._key

    @property
    def job(self) -> StepJob:
        """The job."""
        return self._job

    def task_with(self, executables: Path | None) -> Task:
        """The task; a step of one's own is compiled only, so that no executable is kept."""
        launch = Launch(worker_command(self.toolchain.python, WORKER), tuple(sorted(self.target.environment.items())))
        return Task(launch, {"id": self.key, "step": self.resolved.model_dump(mode="json")})

    @property
    def _key(self) -> str:
        """Hash of everything that decides the result; the place of the file does not."""
        facts: dict[str, Any] = self.resolved.model_dump(mode="json", exclude={"path"})
        versions = {key: value for key, value in self.toolchain.versions.items() if key not in ("ptxas", "pydantic", "pyyaml")}
        text = json.dumps([WORKER.version, facts, self.job.file.packages, versions], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def stand_in(strategy: StepStrategy, hardware: HardwareSpec) -> Strategy:
    """Return a strategy of lcplan's own on as many devices, from which target and launch shape follow."""
    return Strategy.model_validate({"mesh": Mesh(data=strategy.devices), "backend": hardware.backends[0]})
