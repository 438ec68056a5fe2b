"""Memory of random valid steps, compiled for the target: benchmarks/random_steps.py draws them."""

import pytest
from compile_grid import job_of
from random_steps import FEATURES, points

from cost_models.inputs.setting import Setting
from planner.measure.jobs import compile_jobs
from planner.measure.targets.toolchain import probe
from planner.measure.workers.pool import PoolLimits
from planner.workloads.points import broken_rules
from planner.workloads.pricing import price_table, table_of

WITHIN = 0.10
KINDS = ("gpu", "tpu")


def setting_of(job):
    return Setting(job.model, job.hardware, job.workload, job.hardware.usable_bytes)


def errors(jobs):
    """Modelled over compiled memory of each job, less one."""
    toolchain = probe()
    found = []
    for job, compiled in compile_jobs(jobs, toolchain=toolchain, pool=PoolLimits(jobs=2, wall_s=1200.0), store=None):
        assert compiled.error is None, compiled.error
        setting = setting_of(job)
        modelled = price_table(setting, table_of(setting, [job.strategy])).total_bytes[0]
        found.append(float(modelled) / compiled.total_bytes - 1.0)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_steps_are_valid_and_the_same_for_the_same_seed(kind):
    drawn = list(points(kind))
    assert drawn == list(points(kind))
    assert drawn != list(points(kind, seed=1))
    assert len(drawn) == len(FEATURES) == 20
    for job in map(job_of, drawn):
        assert broken_rules(setting_of(job), job.strategy) == []


@pytest.mark.slow
def test_all_but_two_of_forty_steps_are_within_ten_per_cent():
    off = errors([job_of(point) for kind in KINDS for point in points(kind)])
    assert sum(abs(error) > WITHIN for error in off) <= 2, off


def test_a_few_steps_for_a_gpu_are_within_ten_per_cent():
    drawn = list(points("gpu"))
    off = errors([job_of(drawn[FEATURES.index(feature)]) for feature in ("tied", "odd")])
    assert max(map(abs, off)) <= WITHIN
