"""``lcplan worker``: take compile and timing jobs of a shared study, on any machine."""

from __future__ import annotations

import os
import subprocess
import time
from typing import Any

import click
from rich.console import Console

from lcplan.formats.errors import BadInputError, StageFailedError
from lcplan.formats.frozen import Frozen
from planner.cli.output import stderr_console
from planner.measure.jobs import worker_command
from planner.measure.targets.at_hand import gpu_names
from planner.measure.targets.toolchain import Toolchain, probe
from planner.measure.workers.gang import Gang, launched
from planner.measure.workers.job import STEP, Program
from planner.measure.workers.pool import PoolLimits
from planner.measure.workers.process import clean_environment
from planner.study.location import GRACE_S, LEAST_GRACE_S, shown
from planner.study.shared import POLL_S, Crew, Shared

EPILOG = """\b
Examples:
  lcplan worker --study postgresql://lcplan@db.example/lcplan
  lcplan worker --study journal:/shared/study.log --jobs 4 --wait 600
  srun lcplan worker --study postgresql://lcplan@db.example/lcplan --devices-per-process 8"""


class WorkerOptions(Frozen):
    """Every option of the command."""

    study: str
    jobs: int
    toolchain: str | None
    wait: int
    grace: int
    devices_per_process: int | None
    coordinator: str | None
    num_processes: int | None
    process_id: int | None


@click.command("worker", epilog=EPILOG)
@click.option("--study", required=True, metavar="URL", help="The study that lcplan search --study was given.")
@click.option("--jobs", type=click.IntRange(1, 256), default=1, show_default=True, help="Compiles at a time.")
@click.option("--toolchain", metavar="PYTHON", help="Python whose jax compiles. [default: this one]")
@click.option("--wait", type=click.IntRange(1), default=60, show_default=True, help="Exit after this many idle seconds.")
@click.option(
    "--grace",
    type=click.IntRange(LEAST_GRACE_S),
    default=GRACE_S,
    show_default=True,
    help="Take over a job after this many seconds without a heartbeat.",
)
@click.option(
    "--devices-per-process",
    type=click.IntRange(1),
    help="Be one of several processes that time steps together, with this many devices each.",
)
@click.option("--coordinator", metavar="HOST:PORT", help="Address of process 0. [default: from Slurm or Open MPI]")
@click.option("--num-processes", type=click.IntRange(2), help="How many there are; with --coordinator.")
@click.option("--process-id", type=click.IntRange(0), help="Which one this is, from 0; with --coordinator.")
def command(**options: Any) -> int:
    """Take compile and timing jobs of a shared study, on as many machines as you like.

    Each job runs once. A worker sends a heartbeat; the jobs of a dead worker go to another. Jobs of another
    toolchain or another lcplan are left to workers that have it. Ends when there has been nothing to do for a while.
    """
    asked = WorkerOptions.model_validate(options)
    console, using, gang = stderr_console(), probe(asked.toolchain), _gang(asked)
    if gang is not None and gang.rank:
        return _follow(gang, using, console=console)
    crew: Crew | None = None
    idle_since = time.monotonic()
    while time.monotonic() - idle_since <= asked.wait:
        if crew is None:
            shared = Shared.join(asked.study, grace_s=asked.grace)
            crew = Crew(shared, using, gang=gang) if shared is not None else None
        if crew is not None:
            for _ in crew.shift(PoolLimits(jobs=asked.jobs if gang is None else 1)):
                idle_since = time.monotonic()
        time.sleep(POLL_S)
    if crew is None:
        raise StageFailedError(
            f"study {shown(asked.study)}: no search has made it within {asked.wait} s; start lcplan search --study first"
        )
    left = f"; {len(crew.foreign)} need another toolchain, lcplan or other devices" if crew.foreign else ""
    console.print(f"{crew.done} jobs done{left}", highlight=False)
    return 0


def _gang(asked: WorkerOptions) -> Gang | None:
    """Return the process's rank as the options, Slurm or Open MPI give it."""
    place = asked.coordinator, asked.num_processes, asked.process_id
    if asked.devices_per_process is None:
        if any(given is not None for given in place):
            raise BadInputError("--coordinator, --num-processes and --process-id go with --devices-per-process")
        return None
    if any(given is not None for given in place) and None in place:
        raise BadInputError("give all of --coordinator, --num-processes and --process-id; Slurm and Open MPI need no option")
    processes, rank = (asked.num_processes, asked.process_id) if asked.coordinator else launched(os.environ)
    assert processes is not None
    assert rank is not None
    if rank >= processes:
        raise BadInputError(f"--process-id {rank} is not below --num-processes {processes}; count from 0")
    return Gang(
        coordinator=asked.coordinator,
        processes=processes,
        rank=rank,
        devices_per_process=asked.devices_per_process,
        platform="cuda" if gpu_names() else "cpu",
        wait_s=asked.wait,
    )


def _follow(gang: Gang, toolchain: Toolchain, *, console: Console, program: Program = STEP) -> int:
    """Run the jobs that the first process sends, until it has sent nothing for the waiting time."""
    command, environment = worker_command(toolchain.python, program), clean_environment(tuple(gang.environment.items()))
    steps = 0
    while True:
        child = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
            check=False,
        )
        told = len(child.stdout.splitlines())
        if not told:
            console.print(f"{steps} steps run with process 0", highlight=False)
            return 0
        steps += told
