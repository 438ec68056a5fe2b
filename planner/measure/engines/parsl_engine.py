"""The Parsl engine: a site's configuration, which may submit its own blocks of workers to Slurm and others."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import runpy
import sysconfig
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

from lcplan.formats.errors import BadInputError, StageFailedError
from planner.measure.engines.futures import FuturesEngine, LostEngineError
from planner.measure.engines.remote_job import Attempt, run_remote, sent
from planner.measure.work import Work
from planner.measure.workers.pool import PoolLimits

EXTRA = 'pip install "lcplan[parsl]"'
ANSWER_S, CLOSE_S = 5.0, 120.0
"""How long an answer of the interchange, and the end of all blocks, are waited for."""


class Parsl(FuturesEngine):
    """Parsl with the ``config`` of a Python file, which the user names on the command line and which runs."""

    def __init__(self, parsl: Any, kernel: Any) -> None:
        self._parsl, self._kernel = parsl, kernel
        self._apps: dict[str, Any] = {}
        self.name = "parsl"

    @classmethod
    def load(cls, file: Path) -> Parsl:
        """Run ``file`` and load its ``config``.

        Raises
        ------
        BadInputError
            The extra is missing, or the file has no configuration.
        StageFailedError
            The site refuses it.
        """
        try:
            import parsl
        except ImportError as error:
            raise BadInputError(f"--engine parsl: {error}; {EXTRA}") from None
        logging.getLogger("parsl").setLevel(logging.CRITICAL)
        _put_scripts_on_path()
        config = _config(file, parsl)
        try:
            return cls(parsl, parsl.load(config))
        except Exception as error:  # providers raise what they like
            raise StageFailedError(f"--engine parsl:{file}: {type(error).__name__}: {error}") from None

    def submit(self, attempt: Attempt, limits: PoolLimits, *, priority: int) -> Future[str]:
        """Submit an attempt to the executor of its purpose; Parsl retries on other blocks by its configuration."""
        future: Future[str] = self._app(self._label(attempt.work))(sent(attempt.work, limits))
        return future

    def idle_reason(self, work: Work) -> str | None:
        """Return that no block of the executor is connected yet, where that is so.

        Raises
        ------
        LostEngineError
            The executor's interchange has ended; Parsl itself would wait for ever.
        """
        executor = self._kernel.executors.get(self._label(work))
        self._check(executor)
        managers = getattr(executor, "connected_managers", None)
        found = _within(ANSWER_S, managers) if managers is not None else None
        return "no block of workers has started" if found == [] else None

    def close(self) -> None:
        """End the blocks that this search submitted."""
        lost = [one for one in self._kernel.executors.values() if _interchange_ended(one)]
        for executor in lost:  # the shutdown would otherwise wait for an executor that has ended
            blocks = list(getattr(executor, "blocks_to_job_id", {}).values())
            _within(ANSWER_S, partial(executor.provider.cancel, blocks))
        if lost:
            atexit.unregister(self._kernel.atexit_cleanup)
        _within(ANSWER_S if lost else CLOSE_S, self._kernel.cleanup)
        self._parsl.clear()

    def _check(self, executor: Any) -> None:
        if _interchange_ended(executor):
            raise LostEngineError(
                f"Parsl's executor {executor.label!r} has lost its interchange; finished compiles and timings are kept, and "
                "the same command resumes"
            )

    def _label(self, work: Work) -> str:
        """The executor for compiles, or that of the hardware's kind for timings; the only one where there is only one."""
        labels = [name for name in self._kernel.executors if not name.startswith("_parsl")]
        wanted = "compile" if work.purpose == "compile" else work.job.hardware.kind
        if wanted in labels:
            return wanted
        if work.purpose != "compile":
            raise StageFailedError(
                f"--engine parsl: no executor is labelled {wanted!r} for timings; there are {', '.join(labels)}"
            )
        return labels[0]

    def _app(self, label: str) -> Any:
        if label not in self._apps:
            self._apps[label] = self._parsl.python_app(run_remote, executors=[label])
        return self._apps[label]


def _interchange_ended(executor: Any) -> bool:
    process = getattr(executor, "interchange_proc", None)
    return process is not None and process.poll() is not None


def _within(seconds: float, act: Callable[[], Any]) -> Any:
    """Return the result of ``act`` within the time; None where it raises or takes longer: Parsl's requests have no limit."""
    found: list[Any] = []

    def run() -> None:
        with contextlib.suppress(Exception):
            found.append(act())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    return found[0] if found else None


def _put_scripts_on_path() -> None:
    """Let Parsl find its own programs where this Python's environment is not activated."""
    scripts = sysconfig.get_path("scripts")
    found = os.environ.get("PATH", "")
    if scripts not in found.split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([scripts, found])


def _config(file: Path, parsl: Any) -> Any:
    if not file.is_file():
        raise BadInputError(f"--engine parsl:{file}: no such file; it is a Python file with config = parsl.Config(..)")
    try:
        names = runpy.run_path(str(file))
    except Exception as error:
        raise BadInputError(f"--engine parsl:{file}: {type(error).__name__}: {error}") from None
    config = names.get("config")
    if not isinstance(config, parsl.Config):
        raise BadInputError(f"--engine parsl:{file}: no parsl.Config named config in it")
    return config
