"""A study that several machines work off: a search posts its jobs there, and whoever has the same toolchain does them."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lcplan.errors import BadInputError, StageFailedError
from lcplan.measurement import Compiled, Timed
from planner.measure.compile import Work, is_final, row_of
from planner.measure.job import CompileJob
from planner.measure.pool import Outcome, PoolLimits, Task, pull_tasks
from planner.measure.toolchain import Toolchain
from planner.study.location import GRACE_S, canonical_url, open_storage
from planner.study.queue import Attributes, Held, Queue, beating
from planner.study.store import DEFAULT_NAME, Store, talking_to, value_of

POLL_S = 1.0
POSTS = 3
"""Times that a job is posted before it counts as one that kills its workers."""


class Shared(Store):
    """A store with a queue. With ``PoolLimits(jobs=0)`` a search leaves everything to workers."""

    @classmethod
    def join(cls, url: str, *, grace_s: int = GRACE_S) -> Shared | None:
        """The study that a search made at ``url``, whatever its request; None while there is none."""
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
        """Post each job, do what nobody else does (unless ``limits.jobs`` is 0), and yield the rows as they come.

        Closing it withdraws what nobody has begun.
        """
        pending = {one.key: one for one in work}
        posts = dict.fromkeys(pending, 0)
        queue = self.queue
        since = queue.length
        crew = Crew(self, work[0].toolchain if work else None)
        try:
            while pending:
                self._post(pending, posts)
                crew.shift(limits)
                yield from self._arrived(pending, posts, since)
                if pending:
                    time.sleep(POLL_S)
        finally:
            with talking_to(self.url):
                queue.withdraw(set(pending))

    def _post(self, pending: Mapping[str, Work], posts: dict[str, int]) -> None:
        with talking_to(self.url):
            self.queue.reap()
            known, results = self.queue.open_jobs(), self.results
            for key, one in pending.items():
                if key not in known and key not in results and posts[key] < POSTS:
                    posts[key] += 1
                    self.queue.post({"key": key, "purpose": one.purpose, "job": one.job.model_dump(mode="json")})

    def _arrived(
        self, pending: dict[str, Work], posts: Mapping[str, int], since: int
    ) -> Generator[tuple[Work, Compiled | Timed]]:
        with talking_to(self.url):
            results, known = self.results, self.queue.open_jobs()
            failures = self.queue.failures(since)
        for key, one in list(pending.items()):
            data = results.get(key) or failures.get(key)
            if data is None and key not in known and posts[key] >= POSTS:
                raise StageFailedError(f"study {self.url}: {one.job.strategy.label}: its workers died {POSTS} times")
            if data is not None:
                del pending[key]
                yield one, (Compiled if one.purpose == "compile" else Timed).model_validate(data)


class Crew:
    """One machine's share of a study's jobs, under one toolchain."""

    def __init__(self, store: Shared, toolchain: Toolchain | None) -> None:
        self.store, self.toolchain = store, toolchain
        self.done = 0
        self.foreign: set[str] = set()
        """Keys of jobs that belong to another toolchain or another lcplan."""
        self._held: dict[str, tuple[Held, Work]] = {}

    def shift(self, limits: PoolLimits) -> int:
        """Do jobs until none waits that is ours; returns how many. Leaving it by an exception hands back what is not done."""
        if limits.jobs == 0 or self.toolchain is None:
            return 0
        before, queue = self.done, self.store.queue
        with beating(queue, lambda: [held for held, _ in list(self._held.values())]):
            try:
                for outcome in pull_tasks(self._take, replace(limits, jobs=limits.jobs)):
                    self._settle(outcome)
            finally:
                for held, _ in self._held.values():
                    queue.hand_back(held)
                self._held = {}
        return self.done - before

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
        return found[key].task

    def _is_ours(self, attributes: Attributes, found: dict[str, Work]) -> bool:
        assert self.toolchain is not None
        key, purpose = attributes["key"], attributes["purpose"]
        if purpose == "time" and self._held:
            return False
        try:
            work = Work(CompileJob.model_validate(attributes["job"]), purpose, toolchain=self.toolchain)
        except (ValueError, BadInputError):  # posted by another lcplan
            work = None
        if work is None or work.key != key:
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
