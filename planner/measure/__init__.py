"""Measure: compile a strategy's real step for its target, or time it, in worker processes under a toolchain."""

from planner.measure.jobs import compile_jobs, time_jobs
from planner.measure.targets.backends import devices_per_process, environment, xla_flags
from planner.measure.targets.toolchain import Toolchain, probe
from planner.measure.workers.job import CompileJob, Program
from planner.measure.workers.pool import PoolLimits

__all__ = [
    "CompileJob",
    "PoolLimits",
    "Program",
    "Toolchain",
    "compile_jobs",
    "devices_per_process",
    "environment",
    "probe",
    "time_jobs",
    "xla_flags",
]
