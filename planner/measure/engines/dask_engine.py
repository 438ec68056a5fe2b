"""The Dask engine: jobs run on the workers of a Dask scheduler, or of a cluster of processes on this machine.

Workers offer resources: ``compile`` for compiles, and ``gpu``, ``tpu`` or ``cpu`` for timings, as many as they have devices.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from lcplan.formats.errors import BadInputError, StageFailedError
from planner.measure.engines.futures import FuturesEngine, LostEngineError
from planner.measure.engines.remote_job import Attempt, run_remote, sent
from planner.measure.work import Work
from planner.measure.workers.pool import PoolLimits

CONNECT_S = 20
EXTRA = 'pip install "lcplan[dask]"'


class Dask(FuturesEngine):
    """A client of a Dask scheduler. The same job of two searches has one key, and so runs once."""

    def __init__(self, client: Any, *, cluster: Any = None) -> None:
        self._client, self._cluster = client, cluster
        self._theirs: dict[Future[str], Any] = {}
        self.name = "dask"

    @classmethod
    def connect(cls, address: str) -> Dask:
        """Connect to a scheduler, ``tcp://HOST:PORT`` or ``tls://HOST:PORT``.

        Raises
        ------
        BadInputError
            The extra is missing, or the address is malformed.
        StageFailedError
            No scheduler answers.
        """
        distributed = _distributed()
        try:
            return cls(distributed.Client(address, timeout=CONNECT_S, set_as_default=False, name="lcplan"))
        except (ValueError, TypeError) as error:
            raise BadInputError(f"--engine dask: {address}: {error}") from None
        except (OSError, TimeoutError) as error:
            words = " ".join(str(error).split())[:200] or type(error).__name__
            raise StageFailedError(f"--engine dask: no scheduler answers at {address}: {words}") from None

    @classmethod
    def start(cls, workers: int) -> Dask:
        """Start a cluster of worker processes on this machine.

        Raises
        ------
        BadInputError
            The extra is missing.
        StageFailedError
            It does not start.
        """
        distributed = _distributed()
        try:
            cluster = distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                dashboard_address="127.0.0.1:0",
                resources={"compile": 1, "cpu": 1},
                memory_limit=0,
                silence_logs=logging.CRITICAL,
            )
        except (RuntimeError, OSError, TimeoutError) as error:
            raise StageFailedError(f"--engine dask:{workers}: {' '.join(str(error).split())[:300]}") from None
        return cls(distributed.Client(cluster, set_as_default=False), cluster=cluster)

    def submit(self, attempt: Attempt, limits: PoolLimits, *, priority: int) -> Future[str]:
        """Submit an attempt to the workers with its resource; to other workers than the failed ones, where there are others."""
        suffix = f"-{attempt.number}" if attempt.number > 1 else ""
        try:
            theirs = self._client.submit(
                run_remote,
                sent(attempt.work, limits),
                key=f"lcplan-{attempt.work.key}{suffix}",
                resources=resources(attempt.work),
                workers=self._others(attempt) or None,
                priority=priority,
                pure=True,
            )
        except Exception as error:  # a client that lost its scheduler raises what it likes
            raise self._lost(error) from None
        ours: Future[str] = Future()
        self._theirs[ours] = theirs
        theirs.add_done_callback(_passing_on(ours, self._lost))
        return ours

    def idle_reason(self, work: Work) -> str | None:
        """Return that no worker is connected, or that no worker offers the resource of ``work``."""
        workers = self._workers()
        (resource, _), *_ = resources(work).items()
        if not workers:
            return "no worker seen; start one with: dask worker ADDRESS --resources compile=1"
        if not any(resource in facts.get("resources", {}) for facts in workers.values()):
            return f"no worker of {len(workers)} offers {resource}; start one with --resources {resource}=1"
        return None

    def close(self) -> None:
        """Withdraw jobs that have not begun, disconnect, and end a cluster of our own."""
        pending = [theirs for theirs in self._theirs.values() if theirs.status == "pending"]
        try:
            if pending and self._client.status == "running":
                self._client.cancel(pending)
            self._client.close(timeout=5)
        except Exception as error:  # a scheduler that is gone cannot be told
            logging.getLogger(__name__).debug("%s", error)
        if self._cluster is not None:
            self._cluster.close(timeout=10)

    def _workers(self) -> dict[str, Any]:
        try:
            return dict(self._client.scheduler_info(n_workers=-1)["workers"])
        except Exception as error:  # away for a moment, or for good: the futures will tell
            logging.getLogger(__name__).debug("%s", error)
            return {}

    def _others(self, attempt: Attempt) -> list[str]:
        """Addresses of the workers that may run an attempt, where some failed before; empty: any."""
        if not attempt.avoid:
            return []
        return [address for address in self._workers() if address not in attempt.avoid]

    def _lost(self, error: BaseException) -> BaseException:
        """The error to raise: a lost scheduler ends the search, all else is an outcome of the job."""
        kind, gone = type(error).__name__, self._client.status not in ("running", "connecting")
        if gone or kind in ("CancelledError", "FutureCancelledError", "FuturesCancelledError", "CommClosedError"):
            return LostEngineError(
                "the Dask scheduler is gone; finished compiles and timings are kept, and the same command resumes"
            )
        return error


def resources(work: Work) -> dict[str, float]:
    """Return the resources that a worker must offer for ``work``."""
    if work.purpose == "compile":
        return {"compile": 1}
    kind = work.job.hardware.kind
    count = work.job.strategy.devices if work.purpose == "time" and kind != "cpu" else 1
    return {kind: count}


def _passing_on(ours: Future[str], explain: Callable[[BaseException], BaseException]) -> Callable[[Any], None]:
    """A callback that gives a Dask future's end to a standard one."""

    def done(theirs: Any) -> None:
        if not ours.set_running_or_notify_cancel():
            return
        if theirs.status == "finished":
            ours.set_result(theirs.result())
            theirs.release()  # a result that a client holds is computed again when the worker that has it dies
            return
        try:
            theirs.result(timeout=1)
            error: BaseException = RuntimeError(f"the future is {theirs.status}")
        except BaseException as raised:
            error = raised
        ours.set_exception(explain(error))

    return done


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise BadInputError(f"--engine dask: {error}; {EXTRA}") from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    return distributed
