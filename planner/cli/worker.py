"""``lcplan worker``: take compile and timing jobs of a shared study, on any machine."""

from __future__ import annotations

import time

import click

from lcplan.errors import StageFailedError
from planner.cli.output import stderr_console
from planner.measure.pool import PoolLimits
from planner.measure.toolchain import probe
from planner.study.location import shown
from planner.study.shared import POLL_S, Crew, Shared

EPILOG = """\b
Examples:
  lcplan worker --study postgresql://lcplan@db.example/lcplan
  lcplan worker --study journal:/shared/study.log --jobs 4 --wait 600"""


@click.command("worker", epilog=EPILOG)
@click.option("--study", required=True, metavar="URL", help="The study that lcplan search --study was given.")
@click.option("--jobs", type=click.IntRange(1, 256), default=1, show_default=True, help="Compiles at a time.")
@click.option("--toolchain", metavar="PYTHON", help="Python whose jax compiles. [default: this one]")
@click.option("--wait", type=click.IntRange(0), default=60, show_default=True, help="End after so many idle seconds.")
@click.option(
    "--grace", type=click.IntRange(2), default=60, show_default=True, help="Take over a job after so many silent seconds."
)
def command(*, study: str, jobs: int, toolchain: str | None, wait: int, grace: int) -> int:
    """Take compile and timing jobs of a shared study, on as many machines as you like.

    Each job is done once. A worker says with a heartbeat that it lives; what a dead one held goes to another. Jobs of another
    toolchain or another lcplan are left to workers that have it. Ends when there has been nothing to do for a while.
    """
    console, using = stderr_console(), probe(toolchain)
    crew: Crew | None = None
    idle_since = time.monotonic()
    while time.monotonic() - idle_since <= wait:
        if crew is None:
            shared = Shared.join(study, grace_s=grace)
            crew = Crew(shared, using) if shared is not None else None
        if crew is not None:
            for _ in crew.shift(PoolLimits(jobs=jobs)):
                idle_since = time.monotonic()
        time.sleep(POLL_S)
    if crew is None:
        raise StageFailedError(
            f"study {shown(study)}: no search has made it within {wait} s; start lcplan search --study first"
        )
    left = f"; {len(crew.foreign)} need another toolchain or lcplan" if crew.foreign else ""
    console.print(f"{crew.done} jobs done{left}", highlight=False)
    return 0
