"""Evidence of a workload with several programs: one compile and one timing from those of its programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from lcplan.evidence.measurement import RUNGS, Compiled, Timed
from lcplan.spec.collective import CollectiveUse
from planner.measure.workers.job import CompileJob

Result = TypeVar("Result", Compiled, Timed)


def combined_compile(results: Mapping[CompileJob, Compiled]) -> Compiled:
    """The compile of a workload from the compiles of its programs; one program's compile stays as it is.

    Programs run one after the other, so memory is that of the largest, with the arrays of the others that stay in memory.
    """
    if len(results) == 1:
        return next(iter(results.values()))
    job, largest = max(results.items(), key=lambda pair: (pair[1].total_bytes or 0) + pair[0].resident_bytes)
    error, compiles = _error(results), tuple(results.values())
    total = None if error or largest.total_bytes is None else largest.total_bytes + job.resident_bytes
    return largest.model_copy(
        update={
            "rung": min((one.rung for one in compiles), key=RUNGS.index),
            "finished_at": max(one.finished_at for one in compiles),
            "compile_s": round(sum(one.compile_s for one in compiles), 3),
            "resident_bytes": job.resident_bytes,
            "total_bytes": total,
            "kernels": tuple(dict.fromkeys(name for one in compiles for name in one.kernels)),
            "collectives": tuple(use for pair in results.items() for use in _in_one_step(*pair)),
            "warnings": tuple(dict.fromkeys(words for one in compiles for words in one.warnings)),
            "error": error,
            "programs": _by_name(results),
        }
    )


def combined_timing(results: Mapping[CompileJob, Timed]) -> Timed:
    """Return the timing of a workload: the sum of the timings of its programs; one program's timing stays as it is."""
    if len(results) == 1:
        return next(iter(results.values()))
    error, timings = _error(results), tuple(results.values())
    peaks = [one.peak_bytes + job.resident_bytes for job, one in results.items() if one.peak_bytes is not None]
    spreads = [one.spread_ratio for one in timings if one.spread_ratio is not None]
    return timings[0].model_copy(
        update={
            "finished_at": max(one.finished_at for one in timings),
            "step_s": None if error else sum(one.step_s or 0.0 for one in timings),
            "warmup": _sums([one.warmup for one in timings]),
            "samples": _sums([one.samples for one in timings]),
            "spread_ratio": max(spreads, default=None),
            "loss": next((one.loss for one in timings if one.loss is not None), None),
            "peak_bytes": max(peaks, default=None),
            "error": error,
            "programs": _by_name(results),
        }
    )


def _by_name(results: Mapping[CompileJob, Result]) -> dict[str, Result]:
    return {job.program.name: result for job, result in results.items()}


def _error(results: Mapping[CompileJob, Compiled] | Mapping[CompileJob, Timed]) -> str | None:
    """The first program that failed, by name."""
    return next((f"{job.program.name}: {result.error}" for job, result in results.items() if result.error), None)


def _in_one_step(job: CompileJob, compiled: Compiled) -> tuple[CollectiveUse, ...]:
    """Collectives of one step of the workload, which runs the program ``job.calls`` times."""
    return tuple(use.model_copy(update={"calls": use.calls * job.calls}) for use in compiled.collectives)


def _sums(samples: list[tuple[float, ...]]) -> tuple[float, ...]:
    """Sums of the programs' samples, as many as each program has."""
    return tuple(sum(values) for values in zip(*samples, strict=False))
