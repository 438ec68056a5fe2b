"""Runs jobs in worker processes, some at a time; whatever happens to a worker is an outcome, never an exception."""

from __future__ import annotations

import selectors
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lcplan.formats.units import format_bytes
from planner.measure.workers.process import Failure, Launch, WorkerProcess
from planner.measure.workers.stderr_lines import last_words

TICK_S = 0.1
"""How often limits are looked at while nothing arrives."""


@dataclass(frozen=True)
class PoolLimits:
    """Workers at a time, seconds per job, resident bytes per worker (None: an even share of nine tenths of free memory)."""

    jobs: int = 1
    wall_s: float = 600.0
    memory_bytes: int | None = None
    executables: Path | None = None
    """The folder where compiles for the devices at hand keep executables for later timings; None: each timing compiles."""


@dataclass(frozen=True)
class Task:
    """``request`` goes to a worker of ``launch`` as JSON. ``fresh``: only to a process that has done nothing yet."""

    launch: Launch
    request: Mapping[str, Any]
    fresh: bool = False


@dataclass(frozen=True)
class Outcome:
    """A task's result or its failure, and the worker's stderr meanwhile."""

    task: Task
    result: dict[str, Any] | None
    failure: Failure | None
    stderr: str
    seconds: float


def run_tasks(tasks: Iterable[Task], limits: PoolLimits) -> Generator[Outcome]:
    """Outcomes as they come. Leaving the loop, by whatever way, ends every worker."""
    waiting = deque(tasks)
    yield from pull_tasks(lambda: waiting.popleft() if waiting else None, limits)


def pull_tasks(take: Callable[[], Task | None], limits: PoolLimits) -> Generator[Outcome]:
    """Run tasks of a source that is asked whenever a worker is free; end when it is empty and every worker is done."""
    pool = Pool(limits)
    try:
        yield from pool.run(take)
    finally:
        pool.close()


class Pool:
    """Worker processes that stay between runs until ``close``."""

    def __init__(self, limits: PoolLimits) -> None:
        self.limits = limits
        self.memory_bytes = limits.memory_bytes or _share_of_free_memory(limits.jobs)
        self.idle: list[WorkerProcess] = []
        self.busy: dict[WorkerProcess, Task] = {}

    def run(self, take: Callable[[], Task | None]) -> Generator[Outcome]:
        """Run the tasks of ``take`` until it is empty and every worker is done."""
        again: deque[Task] = deque()
        while True:
            while len(self.busy) < max(1, self.limits.jobs):
                task = again.popleft() if again else take()
                if task is None:
                    break
                self._start(task)
            if not self.busy:
                return
            self._wait()
            for worker, task in list(self.busy.items()):
                outcome = self._look(worker, task)
                if outcome is None:
                    continue
                del self.busy[worker]
                retry = self._settle(worker, outcome)
                if retry:
                    again.append(retry)
                else:
                    yield outcome

    def close(self) -> None:
        """End every worker."""
        for worker in (*self.idle, *self.busy):
            worker.close()
        self.idle, self.busy = [], {}

    def _start(self, task: Task) -> None:
        match = next((w for w in self.idle if w.launch == task.launch and not task.fresh), None)
        if match is None:
            for worker in self.idle:  # none fits: its memory is needed
                worker.close()
            self.idle = []
            match = WorkerProcess(task.launch)
        else:
            self.idle.remove(match)
        self.busy[match] = task
        match.send(task.request)

    def _wait(self) -> None:
        with selectors.DefaultSelector() as selector:
            for worker in self.busy:
                for descriptor in worker.descriptors:
                    selector.register(descriptor, selectors.EVENT_READ)
            selector.select(TICK_S)

    def _look(self, worker: WorkerProcess, task: Task) -> Outcome | None:
        """The outcome, where there is one by now."""
        gone = worker.ended()  # before reading: what a dead worker wrote is all there
        answer = next((a for a in worker.drain() if a["id"] == task.request["id"]), None)
        if answer is not None:
            failure = None if "result" in answer else Failure(answer.get("kind", "error"), str(answer.get("error")))
            return _outcome(worker, task, result=answer.get("result"), failure=failure)
        failure = _with_words(gone, worker) if gone else self._over_limit(worker)
        return _outcome(worker, task, failure=failure) if failure else None

    def _over_limit(self, worker: WorkerProcess) -> Failure | None:
        if worker.seconds > self.limits.wall_s:
            return Failure("timeout", f"no result after {self.limits.wall_s:g} s; the worker was killed")
        resident = worker.resident_bytes()
        if resident > self.memory_bytes:
            sizes = f"{format_bytes(resident)}, above its {format_bytes(self.memory_bytes)}"
            return Failure("memory", f"the worker took {sizes}, and was killed")
        return None

    def _settle(self, worker: WorkerProcess, outcome: Outcome) -> Task | None:
        """Keep or end the worker; the task again where a used process or a kill from outside, not the job, may be to blame."""
        used = worker.jobs_done > 0
        worker.jobs_done += 1
        died = outcome.failure is not None and outcome.failure.kind in ("crash", "exit", "killed", "memory")
        if outcome.failure is None and worker.resident_bytes() < self.memory_bytes / 2:
            self.idle.append(worker)
        else:
            worker.close()
        killed = outcome.failure is not None and outcome.failure.kind == "killed" and not outcome.task.fresh
        return replace(outcome.task, fresh=True) if (died and used) or killed else None


def _outcome(worker: WorkerProcess, task: Task, *, result: Any = None, failure: Failure | None = None) -> Outcome:
    stderr = worker.stderr.decode(errors="replace")
    return Outcome(task, result, failure, stderr, worker.seconds)


def _with_words(gone: Failure, worker: WorkerProcess) -> Failure:
    words = last_words(worker.stderr.decode(errors="replace"))
    if not words and worker.noise:
        words = f"it printed {worker.noise[-1][:200]!r}"
    return replace(gone, words=f"{gone.words}: {words}") if words else gone


def _share_of_free_memory(jobs: int) -> int:
    try:
        text = Path("/proc/meminfo").read_text()
        free = next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return 2**62
    return int(free * 0.9) // max(1, jobs)
