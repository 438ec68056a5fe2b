"""A study that several machines work off: a search posts its jobs there, and whoever has the same toolchain does them."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from lcplan.evidence.measurement import Compiled, Timed
from lcplan.formats.errors import BadInputError
from planner.measure.jobs import Work, is_final, row_of
from planner.measure.targets.at_hand import devices_at_hand
from planner.measure.targets.toolchain import Toolchain
from planner.measure.workers.gang import Gang
from planner.measure.workers.job import CompileJob
from planner.measure.workers.pool import Outcome, PoolLimits, Task, pull_tasks
from planner.measure.workers.process import Failure
from planner.study.location import GRACE_S, canonical_url, open_storage
from planner.study.queue import Attributes, Held, Queue, beating
from planner.study.store import DEFAULT_NAME, Store, talking_to, value_of

POLL_S = 1.0
DEATHS = 3
"""Workers that may die with one job in one search; then the job is a failed row, and no other worker is given to it."""


class Shared(Store):
    """A store with a queue. With ``PoolLimits(jobs=0)`` a search leaves everything to workers."""

    @classmethod
    def join(cls, url: str, *, grace_s: int = GRACE_S) -> Shared | None:
        """The study that a search made at ``url``, whatever its request; None while no search made it."""
        url = canonical_url(url)
        storage = open_storage(url, grace_s=grace_s)
        with talking_to(url):
            import optuna

            optuna.logging.set_verbosity(optuna.logging.ERROR)
            names = [study.study_name for study in optuna.get_all_study_summaries(storage)]
            if DEFAULT_NAME in names:
                return cls(url, optuna.load_study(study_name=DEFAULT_NAME, storage=storage))
            if hasattr(storage, "engine"):
                storage.engine.dispose()
            return None

    @property
    def queue(self) -> Queue:
        """The study's jobs."""
        return Queue(self._study)

    def work_off(self, work: Sequence[Work], limits: PoolLimits) -> Generator[tuple[Work, Compiled | Timed]]:
        """Post each job, do the jobs that nobody else does (unless ``limits.jobs`` is 0), and yield the rows as they come.

        Closing it withdraws the jobs that nobody has begun.
        """
        pending = {one.key: one for one in work}
        queue = self.queue
        since = queue.length
        crew = Crew(self, work[0].toolchain if work else None)
        try:
            while pending:
                self._post(pending, since)
                with closing(crew.shift(limits)) as shift:
                    for _ in shift:
                        yield from self._arrived(pending, since)
                yield from self._arrived(pending, since)
                if pending:
                    time.sleep(POLL_S)
        finally:
            with talking_to(self.url):
                queue.withdraw(set(pending))

    def _post(self, pending: Mapping[str, Work], since: int) -> None:
        """Post the jobs that nobody holds and nobody finished, the first time or again."""
        with talking_to(self.url):
            self.queue.reap()
            known, lost, results = self.queue.open_jobs(), self.queue.lost(since), self.results
            for key, one in pending.items():
                if key not in known and key not in results and lost[key] < DEATHS:
                    self.queue.post({"key": key, "purpose": one.purpose, "job": one.job.model_dump(mode="json")})

    def _arrived(self, pending: dict[str, Work], since: int) -> Generator[tuple[Work, Compiled | Timed]]:
        with talking_to(self.url):
            lost, failures = self.queue.lost(since), self.queue.failures(since)
            results = self.results
        for key, one in list(pending.items()):
            data = results.get(key) or failures.get(key)
            if data is None and lost[key] >= DEATHS:
                data = _deadly(one)
            if data is not None:
                del pending[key]
                yield one, (Compiled if one.purpose == "compile" else Timed).model_validate(data)


def in_gang(task: Task, gang: Gang) -> Task:
    """The task for the first process of a gang."""
    environment = {**dict(task.launch.environment), **gang.environment}
    return replace(task, launch=replace(task.launch, environment=tuple(sorted(environment.items()))))


def _deadly(work: Work) -> dict[str, Any]:
    """The row of a job that ends every ``lcplan worker`` that takes it."""
    failure = Failure("killed", f"{DEATHS} lcplan workers died with this job")
    return row_of(work, Outcome(work.task, None, failure, "", 0.0)).model_dump(mode="json")


class Crew:
    """One machine's share of a study's jobs, under one toolchain; with a gang, the timings that take all of its devices."""

    def __init__(self, store: Shared, toolchain: Toolchain | None, *, gang: Gang | None = None) -> None:
        self.store, self.toolchain, self.gang = store, toolchain, gang
        self.done = 0
        self.foreign: set[str] = set()
        """Keys of jobs that need another toolchain, another lcplan or other devices."""
        self._held: dict[str, tuple[Held, Work]] = {}
        self._executables: Path | None = None

    def shift(self, limits: PoolLimits) -> Generator[None]:
        """Do one job per step until our queue is empty. Leaving it early returns the unfinished jobs to the queue."""
        if limits.jobs == 0 or self.toolchain is None:
            return
        queue, self._executables = self.store.queue, limits.executables
        with beating(queue, lambda: [held for held, _ in list(self._held.values())]):
            try:
                with closing(pull_tasks(self._take, limits)) as outcomes:
                    for outcome in outcomes:
                        self._settle(outcome)
                        yield
            finally:
                for held, _ in self._held.values():
                    queue.hand_back(held)
                self._held = {}

    def _take(self) -> Task | None:
        if any(work.purpose == "time" for _, work in self._held.values()):
            return None  # a timing has the machine for itself
        with talking_to(self.store.url):
            self.store.queue.reap()
            found: dict[str, Work] = {}
            held = self.store.queue.claim(lambda attributes: self._is_ours(attributes, found))
        if held is None:
            return None
        key = held.attributes["key"]
        if (kept := self.store.get(key)) is not None:  # its worker died between writing and saying so
            self._finish(held, kept, final=True)
            return self._take()
        self._held[key] = held, found[key]
        return found[key].task_with(self._executables) if self.gang is None else in_gang(found[key].task, self.gang)

    def _can_run(self, work: Work) -> bool:
        """Whether this machine, or this gang, has the devices."""
        if self.gang is not None:
            asked = work.purpose, work.target.platform, work.target.devices
            return asked == ("time", self.gang.platform, self.gang.devices)
        return work.purpose == "compile" or devices_at_hand(work.job.hardware) >= work.job.strategy.devices

    def _is_ours(self, attributes: Attributes, found: dict[str, Work]) -> bool:
        assert self.toolchain is not None
        key, purpose = attributes["key"], attributes["purpose"]
        if purpose == "time" and self._held:
            return False
        try:
            work = Work(CompileJob.model_validate(attributes["job"]), purpose, toolchain=self.toolchain)
        except (ValueError, BadInputError):  # posted by another lcplan
            work = None
        if work is None or work.key != key or not self._can_run(work):
            self.foreign.add(key)
            return False
        found[key] = work
        return True

    def _settle(self, outcome: Outcome) -> None:
        held, work = self._held[outcome.task.request["id"]]
        row = row_of(work, outcome).model_dump(mode="json")
        self._finish(held, row, final=is_final(outcome))
        del self._held[work.key]
        self.done += 1

    def _finish(self, held: Held, row: dict[str, Any], *, final: bool) -> None:
        data: Attributes = {"result" if final else "failure": row, "rung": row["rung"]}
        data["strategy"] = held.attributes["job"]["strategy"]
        with talking_to(self.store.url):
            self.store.queue.finish(held, value=value_of(row), attributes=data)
