"""Engines on futures: jobs are submitted to an executor of other machines, and failed ones are tried on another worker."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait

from lcplan.formats.errors import StageFailedError
from lcplan.spec.hardware import HardwareSpec
from planner.measure.engines.remote_job import Attempt, RemoteAnswer, read_answer
from planner.measure.work import Work
from planner.measure.workers.pool import Outcome, PoolLimits
from planner.measure.workers.process import PERMANENT, Failure

ATTEMPTS = 3
"""Workers that may fail with a job for other reasons than the job itself; then it is a failed row."""
SICK_AFTER = 2
"""Failures of that kind after which a worker gets no further job while others can take them."""
TICK_S = 1.0
SILENT_S = 15.0
"""Without a worker for this long, a note reports it; it is repeated at twice the time."""


class LostEngineError(StageFailedError):
    """The engine's scheduler is gone."""


class FuturesEngine(ABC):
    """The part that all engines of other machines share."""

    name: str

    def devices(self, hardware: HardwareSpec) -> int | None:
        """Return None: only the workers know their devices."""
        return None

    @abstractmethod
    def submit(self, attempt: Attempt, limits: PoolLimits, *, priority: int) -> Future[str]:
        """Start an attempt; the future's result is the JSON of a RemoteAnswer, or an error of the engine."""

    @abstractmethod
    def idle_reason(self, work: Work) -> str | None:
        """Why ``work`` cannot start at the moment: no worker, or no worker with its resource; None where one may run it."""

    @abstractmethod
    def close(self) -> None:
        """Withdraw jobs that have not begun, and disconnect."""

    def outcomes(self, work: Sequence[Work], limits: PoolLimits) -> Generator[tuple[Work, Outcome]]:
        """Submit everything, the most promising first, and yield outcomes as they arrive."""
        sick: Counter[str] = Counter()
        running: dict[Future[str], tuple[Attempt, int]] = {}
        for place, one in enumerate(work):
            running[self.submit(Attempt(one), limits, priority=-place)] = Attempt(one), -place
        silence = _Silence(self.name)
        try:
            while running:
                done, _ = wait(running, timeout=TICK_S, return_when=FIRST_COMPLETED)
                silence.look(None if done else self.idle_reason(next(iter(running.values()))[0].work))
                for future in done:
                    attempt, priority = running.pop(future)
                    answer, final = self._answer(future, attempt)
                    again = None if final else _again(attempt, answer, sick)
                    if again is not None:
                        running[self.submit(again, limits, priority=priority)] = again, priority
                    else:
                        yield attempt.work, _final(answer, attempt)
        finally:
            for future in running:
                future.cancel()

    def _answer(self, future: Future[str], attempt: Attempt) -> tuple[RemoteAnswer, bool]:
        """The answer, and whether the engine has itself tried the job on other workers."""
        try:
            return read_answer(future.result(), attempt), False
        except LostEngineError:
            raise
        except Exception as error:  # an engine's own errors: a worker died, a pickle failed, a site refused a block
            words = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            return RemoteAnswer(key=attempt.work.key, worker="?", failure=("killed", f"{self.name}: {words}")), True


def _again(attempt: Attempt, answer: RemoteAnswer, sick: Counter[str]) -> Attempt | None:
    """The next attempt where another worker may succeed; None where the answer is final."""
    failed = answer.failure is not None and answer.failure[0] not in PERMANENT
    if not failed and answer.foreign is None:
        sick[answer.worker] = 0
        return None
    sick[answer.worker] += 1
    if attempt.number >= ATTEMPTS:
        return None
    avoid = {*attempt.avoid, answer.worker, *(worker for worker, count in sick.items() if count >= SICK_AFTER)}
    return Attempt(attempt.work, attempt.number + 1, tuple(sorted(avoid)))


def _final(answer: RemoteAnswer, attempt: Attempt) -> Outcome:
    if answer.foreign is not None:
        failure = Failure("environment", f"no worker has its toolchain: {answer.foreign}")
        return Outcome(attempt.work.task, None, failure, "", 0.0)
    outcome = answer.outcome(attempt.work)
    if outcome.failure is None or outcome.failure.kind in PERMANENT or attempt.number == 1:
        return outcome
    words = f"{attempt.number} workers failed with this job; the last: {outcome.failure.words}"
    return Outcome(attempt.work.task, None, Failure(outcome.failure.kind, words), outcome.stderr, outcome.seconds)


class _Silence:
    """Notes on stderr while nothing can run, so that a search without workers does not look like a slow one."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._since, self._next_s = time.monotonic(), SILENT_S

    def look(self, reason: str | None) -> None:
        """Note ``reason`` once it has lasted."""
        if reason is None:
            self._since, self._next_s = time.monotonic(), SILENT_S
            return
        waited = time.monotonic() - self._since
        if waited >= self._next_s:
            self._next_s *= 2
            print(f"{self._name}: {reason}; waited {waited:.0f} s", file=sys.stderr, flush=True)
