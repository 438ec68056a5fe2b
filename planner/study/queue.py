"""The queue of a shared study: jobs are Optuna's WAITING trials, and whoever sets one to RUNNING does it.

Setting the state is atomic in every storage (a row lock, or one line of a journal), so that one job has one worker. Where two
searches post the same job in the same moment, only the older of the two trials is ever done. In a relational storage a
worker's heartbeat is stored with its job; a worker without heartbeats loses it. A journal has no heartbeats: there a job
that runs for longer than any job may counts as lost. A search that needs a lost job posts it again, up to its own limit.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

Attributes = dict[str, Any]
LOST_AFTER_S = 900
"""A journal's job that runs for longer than a compile's limit and half of it again has lost its worker."""


@dataclass(frozen=True)
class Held:
    """A job that is ours."""

    trial_id: int
    attributes: Attributes


class Queue:
    """Jobs of one Optuna study."""

    def __init__(self, study: Any) -> None:
        self._study, self._storage = study, study._storage

    def open_jobs(self) -> dict[str, str]:
        """Keys of the jobs that wait or run, with the state's name."""
        return {trial.user_attrs["key"]: trial.state.name for trial in self._trials("WAITING", "RUNNING")}

    def failures(self, since: int) -> dict[str, Attributes]:
        """Rows by key of jobs that failed for a passing reason, from trial number ``since`` on."""
        found = self._trials("FAIL")
        return {t.user_attrs["key"]: t.user_attrs["failure"] for t in found if t.number >= since and "failure" in t.user_attrs}

    def lost(self, since: int) -> Counter[str]:
        """Count by key how often a worker died with the job, from trial number ``since`` on."""
        endings = ("result", "failure", "ended")
        found = [trial for trial in self._trials("FAIL") if trial.number >= since]
        return Counter(t.user_attrs["key"] for t in found if not any(name in t.user_attrs for name in endings))

    @property
    def length(self) -> int:
        """Trials there are: the number of the next one."""
        return len(self._study.get_trials(deepcopy=False))

    def post(self, attributes: Attributes) -> None:
        """Let somebody do this job."""
        self._study.enqueue_trial({}, user_attrs=attributes)

    def claim(self, wanted: Callable[[Attributes], bool]) -> Held | None:
        """The first waiting job that is ``wanted`` and that nobody else got in the same moment."""
        from optuna.trial import TrialState

        for trial in self._oldest().values():
            if trial.state != TrialState.WAITING or not wanted(trial.user_attrs):
                continue
            self.beat(trial._trial_id)  # before: who dies right after it took a job without a heartbeat is never missed
            if not self._set(trial._trial_id, TrialState.RUNNING):
                continue
            held = Held(trial._trial_id, trial.user_attrs)
            if self._oldest()[trial.user_attrs["key"]].number == trial.number:
                return held
            self._end(held, "posted twice")  # its twin came into sight after we had looked
        return None

    def _oldest(self) -> dict[str, Any]:
        """The first of the trials of each key that wait or run; a later trial of the key never begins before it is over."""
        found: dict[str, Any] = {}
        for trial in self._trials("WAITING", "RUNNING"):
            found.setdefault(trial.user_attrs["key"], trial)
        return found

    def finish(self, held: Held, *, value: float | None, attributes: Attributes) -> bool:
        """Write the result of a job; False where it was no longer ours."""
        from optuna.exceptions import UpdateFinishedTrialError
        from optuna.trial import TrialState

        try:
            for name, data in attributes.items():
                self._storage.set_trial_user_attr(held.trial_id, name, data)
        except UpdateFinishedTrialError:
            return False
        state = TrialState.FAIL if value is None else TrialState.COMPLETE
        return self._set(held.trial_id, state, None if value is None else [value])

    def hand_back(self, held: Held) -> None:
        """End a job that is not done, and post it again; that counts as no death."""
        if self._end(held, "handed back"):
            self.post(held.attributes)

    def withdraw(self, keys: set[str]) -> None:
        """Nobody need do these any more, as far as nobody does."""
        while (held := self.claim(lambda attributes: attributes["key"] in keys)) is not None:
            self._end(held, "withdrawn")

    def _end(self, held: Held, why: str) -> bool:
        return self.finish(held, value=None, attributes={"ended": why})

    def reap(self) -> None:
        """Mark the jobs of dead workers as failed."""
        import optuna
        from optuna.trial import TrialState

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is marked experimental
            optuna.storages.fail_stale_trials(self._study)
        if hasattr(self._storage, "record_heartbeat"):
            return
        oldest = datetime.now() - timedelta(seconds=LOST_AFTER_S)
        for trial in self._trials("RUNNING"):
            if trial.datetime_start is not None and trial.datetime_start < oldest:
                self._set(trial._trial_id, TrialState.FAIL)

    def beat(self, trial_id: int) -> None:
        """Record a heartbeat for a job's holder."""
        if hasattr(self._storage, "record_heartbeat"):
            self._storage.record_heartbeat(trial_id)

    @property
    def beat_s(self) -> float:
        """Seconds between two heartbeats."""
        interval = getattr(self._storage, "get_heartbeat_interval", lambda: None)()
        return float(interval or LOST_AFTER_S)

    def _trials(self, *states: str) -> list[Any]:
        from optuna.trial import TrialState

        found = self._study.get_trials(deepcopy=False, states=tuple(TrialState[name] for name in states))
        return [trial for trial in found if isinstance(trial.user_attrs.get("job"), dict) and "key" in trial.user_attrs]

    def _set(self, trial_id: int, state: Any, values: list[float] | None = None) -> bool:
        from optuna.exceptions import UpdateFinishedTrialError

        try:
            return bool(self._storage.set_trial_state_values(trial_id, state, values))
        except UpdateFinishedTrialError:
            return False


@contextlib.contextmanager
def beating(queue: Queue, held: Callable[[], list[Held]]) -> Iterator[None]:
    """Send heartbeats for the held jobs, from a thread, while the block runs."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(queue.beat_s):
            for one in held():
                with contextlib.suppress(Exception):  # a server that is away for a moment; silence is what the grace is for
                    queue.beat(one.trial_id)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=5)
