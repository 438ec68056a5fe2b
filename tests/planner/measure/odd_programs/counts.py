"""Compiles as the ring program does, and keeps a log of it; the job with the number in ODD_STOP_AT never comes back.

ODD_LOG_FILE gets a line a job: the worker's process id and the strategy.
"""

import os
import time
from pathlib import Path

from planner.measure.targets import ring_program
from planner.measure.targets.ring_program import StepSpec

__all__ = ["StepSpec", "build_step"]


def build_step(spec, mesh):
    log = Path(os.environ["ODD_LOG_FILE"])
    with log.open("a") as stream:
        stream.write(f"{os.getpid()} {spec.strategy.label}\n")
    if len(log.read_text().splitlines()) == int(os.environ.get("ODD_STOP_AT", "0")):
        time.sleep(600)
    return ring_program.build_step(spec, mesh)
