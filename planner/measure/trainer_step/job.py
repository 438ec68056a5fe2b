"""The seam: a compile of a trainer's own step as a job of the same engines, workers and study as lcplan's own programs."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Literal

from lcplan.formats.frozen import Frozen
from lcplan.spec.hardware import HardwareSpec
from lcplan.strategy import Strategy
from planner.measure.targets.target import Target, target_for
from planner.measure.targets.toolchain import Toolchain
from planner.measure.work import Work, worker_command
from planner.measure.workers.job import Program, Purpose
from planner.measure.workers.pool import Task
from planner.measure.workers.process import Launch

WORKER = Program(name="trainer_step", module="", packages=("lcplan", "planner"))
"""lcplan's part of the worker; the program itself is the trainer's."""
COSMETIC = frozenset({"run_name", "base_output_directory", "hardware"})
"""Settings that change no program. ``hardware`` follows from the target."""


class TrainerJob(Frozen):
    """A trainer's configuration on a machine."""

    trainer: Literal["maxtext"]
    version: str
    """Version of the trainer's package, which decides the program."""
    settings: dict[str, Any]
    """The keys and values of the file, over the trainer's defaults."""
    hardware: HardwareSpec
    strategy: Strategy
    """The same configuration in lcplan's words; it gives devices and compiler flags."""
    slices: int = 1

    def __hash__(self) -> int:
        """Hash the fields that differ between jobs of one search."""
        return hash((self.trainer, self.hardware.name, self.strategy, json.dumps(self.settings, sort_keys=True)))


class WorkerTrainerJob(Frozen):
    """A job as it goes to a worker: with all that the result depends on."""

    trainer: Literal["maxtext"]
    version: str
    settings: dict[str, Any]
    slices: int
    target: Target


class TrainerWork(Work):
    """A compile of a trainer's own step with its target, key and task under the trainer's Python."""

    purpose: Purpose = "compile"

    def __init__(self, job: TrainerJob, *, toolchain: Toolchain) -> None:
        self._job, self.toolchain = job, toolchain
        self.target = target_for(job.strategy, job.hardware, toolchain=toolchain)
        self.resolved = WorkerTrainerJob(
            trainer=job.trainer,
            version=job.version,
            settings={key: value for key, value in job.settings.items() if key not in COSMETIC},
            slices=job.slices,
            target=self.target,
        )
        self.key = self._key

    @property
    def job(self) -> TrainerJob:
        """The job."""
        return self._job

    def task_with(self, executables: Path | None) -> Task:
        """The task; a trainer's step is compiled only, so that no executable is kept."""
        launch = Launch(worker_command(self.toolchain.python, WORKER), tuple(sorted(self.target.environment.items())))
        return Task(launch, {"id": self.key, "trainer": self.resolved.model_dump(mode="json")})

    @property
    def _key(self) -> str:
        """Hash of everything that decides the result."""
        facts: dict[str, Any] = self.resolved.model_dump(mode="json")
        versions = {key: value for key, value in self.toolchain.versions.items() if key not in ("ptxas", "pydantic", "pyyaml")}
        text = json.dumps([WORKER.version, facts, versions], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]
