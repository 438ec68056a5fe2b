"""The local engine: worker processes of this machine."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import nullcontext

from lcplan.spec.hardware import HardwareSpec
from planner.measure.targets.at_hand import devices_at_hand
from planner.measure.work import Work
from planner.measure.workers.exclusive import alone_on_this_machine
from planner.measure.workers.pool import Outcome, PoolLimits, Task, run_tasks


class Local:
    """Runs jobs in subprocesses, as many at a time as ``PoolLimits.jobs``. A timing waits for other timings here."""

    def devices(self, hardware: HardwareSpec) -> int | None:
        """Return how many devices of the hardware's kind this machine has."""
        return devices_at_hand(hardware)

    def outcomes(self, work: Sequence[Work], limits: PoolLimits) -> Generator[tuple[Work, Outcome]]:
        """Run work in worker processes and yield each outcome as it arrives; closing the generator ends the workers."""
        yield from run_here(work, limits, task_of=lambda one: one.task_with(limits.executables))

    def close(self) -> None:
        """Do nothing: workers end with ``outcomes``."""


def run_here(work: Sequence[Work], limits: PoolLimits, *, task_of: Callable[[Work], Task]) -> Generator[tuple[Work, Outcome]]:
    """Run the tasks of ``work`` in processes of this machine; timings, one machine's at a time."""
    by_key = {one.key: one for one in work}
    timed = any(one.purpose != "compile" for one in work)
    with alone_on_this_machine() if timed else nullcontext():
        for outcome in run_tasks([task_of(one) for one in work], limits):
            yield by_key[outcome.task.request["id"]], outcome
