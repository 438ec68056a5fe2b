"""The engine of one step over several processes: this search is process 0, and the others follow it.

All processes run the same command under srun or mpirun. Process 0 searches and compiles as usual; a timing that takes all
devices together runs in every process at once, under ``jax.distributed``.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

from lcplan.formats.errors import BadInputError
from lcplan.spec.hardware import HardwareSpec
from planner.measure.engines.local import Local, run_here
from planner.measure.targets.at_hand import devices_at_hand, gpu_names
from planner.measure.targets.toolchain import Toolchain
from planner.measure.work import Work, worker_command
from planner.measure.workers.gang import Gang, launched
from planner.measure.workers.job import STEP, Program
from planner.measure.workers.pool import Outcome, PoolLimits, Task
from planner.measure.workers.process import clean_environment

WAIT_S = 3600
"""How long the processes wait for each other: compiles come before the first timing."""


@dataclass(frozen=True)
class Processes:
    """Process 0 of several."""

    gang: Gang
    toolchain: Toolchain

    def devices(self, hardware: HardwareSpec) -> int | None:
        """Return the devices of all processes together, where they are of the hardware's kind."""
        kind = {"cuda": "gpu"}.get(self.gang.platform, self.gang.platform)
        same = kind == hardware.kind and devices_at_hand(hardware) > 0
        return self.gang.devices if same else devices_at_hand(hardware)

    def outcomes(self, work: Sequence[Work], limits: PoolLimits) -> Generator[tuple[Work, Outcome]]:
        """Compile here; time in all processes at once."""
        if all(one.purpose != "time" for one in work):
            yield from Local().outcomes(work, limits)
            return
        wrong = {one.target.devices for one in work if one.target.devices != self.gang.devices}
        if wrong:
            raise BadInputError(
                f"--engine processes: {self.gang.processes} processes have {self.gang.devices} devices, and a strategy "
                f"takes {min(wrong)}; give --devices {self.gang.devices}"
            )
        yield from run_here(work, limits, task_of=lambda one: in_gang(one.task, self.gang))

    def close(self) -> None:
        """Join the others once without a job, which ends them."""
        _run_follower(self.gang, self.toolchain)


def in_gang(task: Task, gang: Gang) -> Task:
    """The task for the first process of a gang."""
    environment = {**dict(task.launch.environment), **gang.environment}
    return replace(task, launch=replace(task.launch, environment=tuple(sorted(environment.items()))))


def this_process(devices_per_process: int) -> Gang:
    """This process's place, as Slurm, Open MPI or jax's own variables give it.

    Raises
    ------
    BadInputError
        No launcher started several processes.
    """
    place = launched(os.environ)
    return Gang(
        coordinator=place.coordinator,
        processes=place.processes,
        rank=place.rank,
        devices_per_process=devices_per_process,
        platform="cuda" if gpu_names() else "cpu",
        wait_s=WAIT_S,
    )


def follow(gang: Gang, toolchain: Toolchain) -> int:
    """Run the steps that process 0 sends until it ends; return their number."""
    steps = 0
    while (told := _run_follower(gang, toolchain)) > 0:
        steps += told
    return steps


def _run_follower(gang: Gang, toolchain: Toolchain, *, program: Program = STEP) -> int:
    """Be one process of the gang without jobs of its own; return how many jobs process 0 sent."""
    child = subprocess.run(
        worker_command(toolchain.python, program),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=clean_environment(tuple(gang.environment.items())),
        start_new_session=True,
        check=False,
    )
    return len(child.stdout.splitlines())
