"""A mixture of experts compiled for machines that are not there: the laws' memory and list of collectives hold."""

from __future__ import annotations

from collections import Counter

import pytest

from cost_models.collectives.step import collectives
from cost_models.estimate import estimate
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan import catalog
from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy
from planner.explain.inventory import SMALL_BYTES, TOLERANCE
from planner.measure.jobs import compile_jobs
from planner.measure.targets.toolchain import Toolchain
from planner.measure.workers.job import CompileJob
from planner.measure.workers.pool import PoolLimits

LIMITS = PoolLimits(jobs=1, wall_s=500)
WORST = 0.10


def shallow(name: str, layers: int) -> ModelSpec:
    """The catalogue's model with so many layers, those without experts first."""
    return catalog.model(name).model_copy(update={"layers": layers})


def assert_as_the_laws_say(job: CompileJob, toolchain: Toolchain) -> None:
    ((_, row),) = compile_jobs([job], toolchain=toolchain, pool=LIMITS, store=None)
    assert (row.rung, row.error) == ("compiled:target", None)
    setting = Setting(job.model, job.hardware, job.workload, job.hardware.usable_bytes)
    law = estimate(setting, StrategyTable.from_strategies([job.strategy]))
    assert law.total_bytes[0] == pytest.approx(row.total_bytes, rel=WORST)
    listed, seen = bytes_of(collectives(setting, job.strategy)), bytes_of(row.collectives)
    for key in {*listed, *seen}:
        assert abs(seen[key] - listed[key]) <= max(SMALL_BYTES, TOLERANCE * listed[key]), (key, seen[key], listed[key])


def bytes_of(uses) -> Counter[tuple[str, str]]:
    total: Counter[tuple[str, str]] = Counter()
    for use in uses:
        total[use.op, use.axis] += use.total_bytes
    return total


@pytest.mark.slow
@pytest.mark.gpu_target
@pytest.mark.parametrize("dispatch", ["dropless", "capacity"])
def test_shared_experts_and_a_dense_first_layer_on_gb200(gpu_toolchain: Toolchain, dispatch: str) -> None:
    job = CompileJob(
        model=shallow("deepseek-moe-16b", 4),
        hardware=catalog.hardware("gb200-nvl72"),
        workload=Workload(seq_len=32768, global_batch=16),
        strategy=Strategy(mesh=Mesh(context=4, tensor=2, expert=4), microbatches=2, moe_dispatch=dispatch),
    )
    assert [run.repeats for run in job.model.layer_runs] == [1, 3]
    assert_as_the_laws_say(job, gpu_toolchain)


@pytest.mark.slow
@pytest.mark.gpu_target
def test_layers_in_turn_on_gb200(gpu_toolchain: Toolchain) -> None:
    model = catalog.model("qwen1.5-moe-a2.7b")
    assert model.experts is not None
    in_turn = model.model_copy(update={"layers": 6, "experts": model.experts.model_copy(update={"every": 2})})
    job = CompileJob(
        model=in_turn,
        hardware=catalog.hardware("gb200-nvl72"),
        workload=Workload(seq_len=16384, global_batch=16),
        strategy=Strategy(mesh=Mesh(context=4, fsdp=2, expert=4), microbatches=2, remat="save-except-mlp"),
    )
    assert_as_the_laws_say(job, gpu_toolchain)


@pytest.mark.slow
@pytest.mark.tpu_target
def test_experts_on_v5p_move_their_rows_by_a_ragged_all_to_all(tpu_toolchain: Toolchain) -> None:
    """Small: XLA makes all-reduces of some gathers and scatters of this size, and the law of memory is for whole models."""
    tiny = catalog.model("qwen3-moe-tiny")
    assert tiny.experts is not None
    job = CompileJob(
        model=tiny.model_copy(
            update={"layers": 3, "experts": tiny.experts.model_copy(update={"shared_d_ff": 128, "first_dense": 1})}
        ),
        hardware=catalog.hardware("tpu-v5p-16"),
        workload=Workload(seq_len=1024, global_batch=8),
        strategy=Strategy(mesh=Mesh(fsdp=2, expert=4), backend="ici"),
    )
    ((_, row),) = compile_jobs([job], toolchain=tpu_toolchain, pool=LIMITS, store=None)
    assert (row.rung, row.error) == ("compiled:target", None)
    setting = Setting(job.model, job.hardware, job.workload, job.hardware.usable_bytes)
    listed, seen = bytes_of(collectives(setting, job.strategy)), bytes_of(row.collectives)
    for key in (
        ("ragged-all-to-all", "expert"),
        ("all-gather", "fsdp"),
        ("reduce-scatter", "fsdp"),
        ("all-gather", "fsdp+expert"),
    ):
        assert seen[key] == listed[key] > 0, key
