"""Timing whole steps on host devices."""

from __future__ import annotations

import math
import statistics
from types import SimpleNamespace

import pytest
from measuring import MakeJob, MemoryStore

from lcplan.formats.errors import StageFailedError
from planner.measure.jobs import time_jobs
from planner.measure.targets.toolchain import Toolchain
from planner.measure.timing.time_full import SAMPLING, peak_bytes, time_step
from planner.measure.workers.pool import PoolLimits

LIMITS = PoolLimits(jobs=2, wall_s=120)


def test_a_timed_row(toolchain: Toolchain, make_job: MakeJob, store: MemoryStore) -> None:
    job = make_job(context=2)
    ((_, row),) = time_jobs([job], toolchain=toolchain, pool=LIMITS, store=store)
    assert (row.rung, row.error) == ("timed:full", None)
    assert row.device.startswith("2 x cpu (")
    assert SAMPLING.least <= len(row.samples) <= SAMPLING.most
    assert len(row.warmup) == SAMPLING.warmup
    assert row.warmup[0] > row.step_s  # it compiles
    assert row.spread_ratio == (max(row.samples) - min(row.samples)) / row.step_s
    assert row.loss is not None
    assert math.isfinite(row.loss)
    assert row.peak_bytes is None  # a host keeps no count
    assert row.step_s == statistics.median(row.samples)
    assert all(sample > 0 for sample in row.samples)
    ((_, again),) = time_jobs([job], toolchain=toolchain, pool=LIMITS, store=store)
    assert again == row
    assert store.served == {job}


def test_hardware_that_is_not_at_hand_is_not_timed(toolchain: Toolchain, make_job: MakeJob) -> None:
    with pytest.raises(StageFailedError, match="dgx-h100: a step on 2 devices cannot be timed"):
        list(time_jobs([make_job("dgx-h100", context=2)], toolchain=toolchain, pool=LIMITS, store=None))


def test_a_loss_that_is_not_finite_is_an_error() -> None:
    step = SimpleNamespace(
        init=lambda key: 0.0,
        example_batch=lambda key: 0.0,
        jitted=lambda state, batch: (state, SimpleNamespace(loss=math.nan)),
    )
    facts = time_step(step)
    steps = len(facts["samples"]) + len(facts["warmup"])
    assert facts["error"] == f"the loss is nan after {steps} steps"
    assert facts["loss"] is None


@pytest.mark.parametrize(
    ("samples", "done"),
    [
        ([1.0, 1.0], False),  # fewer than three
        ([1.0, 1.0, 1.0], True),  # they repeat
        ([1.0, 1.1, 1.0], False),  # they do not, and 5 s are not over
        ([2.0, 2.5, 2.0], True),  # they do not, but 5 s are over
        ([0.001 * (1 + n % 2) for n in range(20)], True),  # the most
        ([21.0], False),  # one sample has no spread
        ([11.0, 11.0], True),  # two of these took long enough
    ],
)
def test_when_samples_are_enough(samples: list[float], done: bool) -> None:
    assert SAMPLING.done(samples) is done


def test_the_peak_is_the_fullest_devices() -> None:
    gpus = [SimpleNamespace(memory_stats=lambda n=n: {"peak_bytes_in_use": n}) for n in (5, 7, 6)]
    assert peak_bytes(gpus) == 7
    assert peak_bytes([SimpleNamespace(memory_stats=lambda: None)]) is None
