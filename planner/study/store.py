"""Store: finished compiles and timings of one study, by key. Each is one Optuna trial, added whole when it is finished.

A killed search leaves no half-written trial: a relational storage adds a trial with its attributes in one transaction, a
journal in one line. This module does not touch queued jobs (Optuna's WAITING trials), so that workers may share the study.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lcplan.formats.errors import BadInputError, LcplanError
from planner.measure.workers.job import CompileJob
from planner.study.location import canonical_url, explained, open_storage

DEFAULT_NAME = "lcplan"
MAX_SHOWN = 6
"""Differences between two requests that a message names."""


class Store:
    """Results of one study. ``served`` holds the jobs that were answered from it, so that a caller can count them."""

    def __init__(self, url: str, study: Any) -> None:
        self.url = url
        self.served: set[CompileJob] = set()
        self._study = study
        self._results: dict[str, dict[str, Any]] = {}
        self._refresh()

    @classmethod
    def open(cls, url: str, request: Mapping[str, Any], *, name: str = DEFAULT_NAME) -> Store:
        """Open or make the study ``name`` at ``url``, which belongs to ``request`` (plain JSON values).

        Raises
        ------
        BadInputError
            A URL that is no storage, or the study belongs to another request; the message names the differences.
        StageFailedError
            It cannot be read or written, or is damaged.
        """
        url = canonical_url(url)
        storage = open_storage(url)
        with talking_to(url):
            import optuna

            optuna.logging.set_verbosity(optuna.logging.ERROR)
            study = optuna.create_study(storage=storage, study_name=name, load_if_exists=True)
            _claim(study, request, url=url)
            return cls(url, study)

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
        with talking_to(self.url):
            from optuna.trial import TrialState, create_trial

            value = value_of(result)
            trial = create_trial(
                state=TrialState.FAIL if value is None else TrialState.COMPLETE,
                values=None if value is None else [value],
                user_attrs={"key": key, "rung": rung, "strategy": strategy, "result": result},
            )
            self._study.add_trial(trial)
        self._results[key] = result

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        """All results by key."""
        self._refresh()
        return dict(self._results)

    def close(self) -> None:
        """Let go of the database's connections."""
        engine = getattr(getattr(self._study, "_storage", None), "_backend", None)
        if engine is not None and hasattr(engine, "engine"):
            engine.engine.dispose()

    def _refresh(self) -> None:
        """Read trials that are new; results are never changed once they are there."""
        with talking_to(self.url):
            for trial in self._study.get_trials(deepcopy=False):
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


def _claim(study: Any, request: Mapping[str, Any], *, url: str) -> None:
    ours = json.loads(json.dumps(request, sort_keys=True))
    if "request" not in study.user_attrs:
        study.set_user_attr("request", ours)
    theirs = study.user_attrs["request"]  # read again: another search may have been first in the same moment
    different = [f"{path}: {a!r} there, {b!r} here" for path, a, b in _differences(theirs, ours)]
    if different:
        more = f" and {len(different) - MAX_SHOWN} more" if len(different) > MAX_SHOWN else ""
        raise BadInputError(
            f"study {url} holds another request ({'; '.join(different[:MAX_SHOWN])}{more}); choose another folder or study"
        )


def _differences(a: Any, b: Any, *, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted({*a, *b}):
            yield from _differences(a.get(key), b.get(key), path=f"{path}.{key}" if path else key)
    elif a != b:
        yield path, a, b
