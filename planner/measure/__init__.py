"""Measure: compile a strategy's real step for its target, or time it, in worker processes under a toolchain."""

from planner.measure.backends import devices_per_process, environment, xla_flags
from planner.measure.compile import compile_jobs, time_jobs
from planner.measure.job import CompileJob, Program
from planner.measure.pool import PoolLimits
from planner.measure.toolchain import Toolchain, probe

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
