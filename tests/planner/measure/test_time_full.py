"""Timing whole steps on host devices."""

from __future__ import annotations

import math
import statistics
from types import SimpleNamespace

import pytest
from measuring import MakeJob, MemoryStore

from lcplan.errors import StageFailedError
from planner.measure.compile import time_jobs
from planner.measure.pool import PoolLimits
from planner.measure.time_full import MAX_SAMPLES, MIN_SAMPLES, WARMUP_STEPS, time_step
from planner.measure.toolchain import Toolchain

LIMITS = PoolLimits(jobs=2, wall_s=120)


def test_a_timed_row(toolchain: Toolchain, make_job: MakeJob, store: MemoryStore) -> None:
    job = make_job(context=2)
    ((_, row),) = time_jobs([job], toolchain=toolchain, pool=LIMITS, store=store)
    assert (row.rung, row.error) == ("timed:full", None)
    assert row.device.startswith("2 x cpu (")
    assert MIN_SAMPLES <= len(row.samples) <= MAX_SAMPLES
    assert row.step_s == statistics.median(row.samples)
    assert all(sample > 0 for sample in row.samples)
    ((_, again),) = time_jobs([job], toolchain=toolchain, pool=LIMITS, store=store)
    assert again == row
    assert store.served == {job}


def test_hardware_that_is_not_at_hand_is_not_timed(toolchain: Toolchain, make_job: MakeJob) -> None:
    with pytest.raises(StageFailedError, match="dgx-h100: whole steps are timed on cpu-host only"):
        list(time_jobs([make_job("dgx-h100", context=2)], toolchain=toolchain, pool=LIMITS, store=None))


def test_a_loss_that_is_not_finite_is_an_error() -> None:
    step = SimpleNamespace(
        init=lambda key: 0.0,
        example_batch=lambda key: 0.0,
        jitted=lambda state, batch: (state, SimpleNamespace(loss=math.nan)),
    )
    facts = time_step(step)
    assert facts["error"] == f"the loss is nan after {MAX_SAMPLES + WARMUP_STEPS} steps"
