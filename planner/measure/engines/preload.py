"""Preload of a Dask worker: ``dask worker tcp://HOST:8786 --preload planner.measure.engines.preload``.

It refuses to start a worker whose Python cannot compile, and logs its versions.
"""

from __future__ import annotations

import logging
from typing import Any

import lcplan
from lcplan.formats.errors import StageFailedError
from planner.measure.engines.remote_job import TOOLCHAIN_VARIABLE, worker_toolchain


def dask_setup(worker: Any) -> None:
    """Check this worker's toolchain before it takes jobs.

    Raises
    ------
    StageFailedError
        Its Python cannot compile; the worker ends.
    """
    toolchain = worker_toolchain()
    verdict = toolchain.targets.get("cpu")
    if verdict is not True:
        raise StageFailedError(
            f"this worker's toolchain {toolchain.python} cannot compile: {verdict}; name another Python in {TOOLCHAIN_VARIABLE}"
        )
    versions = ", ".join(f"{name} {version}" for name, version in sorted(toolchain.versions.items()))
    logging.getLogger("distributed.worker").info("lcplan %s on %s: %s", lcplan.__version__, worker.address, versions)
