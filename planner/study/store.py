"""Store: finished compiles and timings of one study, by key. Each is one Optuna trial, added whole when it is finished.

A killed search leaves no half-written trial: a relational storage adds a trial with its attributes in one transaction, a
journal in one line. Many requests may share a study.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from lcplan.formats.errors import LcplanError
from planner.study.location import GRACE_S, AwayError, canonical_url, explained, open_storage

NAME = "lcplan"
RETRY_S = 1.0
T = TypeVar("T")


class Store:
    """Results of one study. ``served`` holds the jobs that were answered from it, so that a caller can count them."""

    def __init__(self, url: str, study: Any, *, storage: Any, grace_s: int = GRACE_S) -> None:
        self.url = url
        self._storage, self._grace_s = storage, grace_s
        self.served: set[Hashable] = set()
        self._study = study
        self._results: dict[str, dict[str, Any]] = {}
        self._refresh()

    @classmethod
    def open(cls, url: str, *, grace_s: int = GRACE_S) -> Store:
        """Open or make the study at ``url``. Requests share it: a result's key holds everything that decides it.

        A database that goes away later is waited for, ``grace_s`` seconds each time.

        Raises
        ------
        BadInputError
            A URL that is no storage.
        StageFailedError
            It cannot be read or written, or is damaged.
        """
        url = canonical_url(url)
        storage = open_storage(url)
        with talking_to(url):
            import optuna

            optuna.logging.set_verbosity(optuna.logging.ERROR)
            study = optuna.create_study(storage=storage, study_name=NAME, load_if_exists=True)
            return cls(url, study, storage=storage, grace_s=grace_s)

    def get(self, key: str) -> dict[str, Any] | None:
        """The result stored under ``key``, by this process or another; None where no process stored it."""
        if key not in self._results:
            self._refresh()
        return self._results.get(key)

    def put(self, key: str, *, rung: str, strategy: dict[str, Any], result: dict[str, Any]) -> None:
        """Add a finished result.

        Raises
        ------
        StageFailedError
            It could not be written; the earlier results are untouched.
        """
        from optuna.trial import TrialState, create_trial

        value = value_of(result)
        trial = create_trial(
            state=TrialState.FAIL if value is None else TrialState.COMPLETE,
            values=None if value is None else [value],
            user_attrs={"key": key, "rung": rung, "strategy": strategy, "result": result},
        )
        self._patiently(lambda: self._study.add_trial(trial))
        self._results[key] = result

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        """All results by key."""
        self._refresh()
        return dict(self._results)

    def close(self) -> None:
        """Let go of the database's connections."""
        if hasattr(self._storage, "engine"):
            self._storage.engine.dispose()

    def _patiently(self, act: Callable[[], T]) -> T:
        """Do ``act``; while the database is away, wait and try again until the grace is over."""
        end = time.monotonic() + self._grace_s
        while True:
            try:
                with talking_to(self.url):
                    return act()
            except AwayError:
                if time.monotonic() >= end:
                    raise
                time.sleep(RETRY_S)

    def _refresh(self) -> None:
        """Read trials that are new; results are never changed once they are there."""
        for trial in self._patiently(lambda: self._study.get_trials(deepcopy=False)):
            key, result = trial.user_attrs.get("key"), trial.user_attrs.get("result")
            if isinstance(key, str) and isinstance(result, dict):
                self._results.setdefault(key, result)


def value_of(result: Mapping[str, Any]) -> float | None:
    """The value that Optuna shows for a trial: seconds of a timing, bytes of a compile; None for a failure."""
    if result.get("error") is not None:
        return None
    found = next((result[key] for key in ("step_s", "total_bytes") if result.get(key) is not None), None)
    return None if found is None else float(found)


@contextmanager
def talking_to(url: str) -> Iterator[None]:
    """Whatever storage and driver raise, as one of our errors that names the study."""
    try:
        yield
    except LcplanError:
        raise
    except Exception as error:  # drivers raise what they like
        raise explained(url, error) from None
