"""Export, import, the same strategy: over random plans that a trainer runs, its own words for what the file cannot say."""

from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from export_plans import make_plan, plans
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cost_models.inputs.table import StrategyTable
from lcplan import catalog
from lcplan.evidence.plan import Plan
from lcplan.formats.errors import BadInputError
from lcplan.spec.workload import Workload
from lcplan.strategy import Strategy
from planner.cli.build import RequestOptions, build_request
from planner.cli.from_files import FORMATS, with_file
from planner.export.run import Export, export_plan
from planner.imports.step import placed
from planner.request.filters import Filters
from planner.request.request import SearchRequest
from planner.trainers.registry import trainer_names
from planner.workloads.one_strategy import resolve_strategy
from planner.workloads.points import valid_points

EXPORTED = sorted(set(FORMATS) & set(trainer_names()))
"""Formats that are also written; front ends are only read."""
JOBS = [
    ("llama3-8b", "gb200-nvl72", 262144, 4),
    ("llama3.1-70b", "dgx-h100x4", 65536, 8),
    ("qwen3-8b", "dgx-h200x2", 32768, 8),
    ("llama3.2-1b", "tpu-v5p-32", 131072, 4),
    ("mistral-7b-v0.3", "tpu-v5e-16", 16384, 16),
]
OPTIONS = (
    "model", "seq", "hw", "devices", "global_batch", "budget", "mesh", "scheme", "remat", "backend", "microbatches",
    "loss_chunk_tokens", "gather_dtype", "reduce_dtype", "moments_dtype", "trainer",
)  # fmt: skip


@lru_cache(maxsize=16)
def points(job: tuple[str, str, int, int]) -> StrategyTable:
    """Every valid strategy of a job, with all dtypes that a plan may have."""
    model, hw, seq, batch = job
    hardware = catalog.hardware(hw)
    both = ("bf16", "fp32")
    request = SearchRequest(
        model=catalog.model(model),
        hardware=hardware,
        workload=Workload(seq_len=seq, global_batch=batch),
        budget_bytes=hardware.usable_bytes,
        filters=Filters(gather_dtype=both, reduce_dtype=both, moments_dtype=both),
    )
    return valid_points(request, hardware.backends)


def read_back(export: Export, trainer: str, folder: Any) -> Strategy:
    """The strategy that ``lcplan estimate --from-..`` reads in the exported file."""
    for name, text in export.files.items():
        (folder / name).write_text(text)
    job = export.translation.job
    words: dict[str, Any] = {
        "model": job.model.name,
        "seq": job.workload.seq_len,
        "global_batch": job.workload.global_batch,
        "microbatches": (job.strategy.microbatches,),
        "remat": (job.strategy.remat,),
        "backend": (job.strategy.backend,),
        "loss_chunk_tokens": (job.strategy.loss_chunk_tokens,),
    }
    options: dict[str, Any] = dict.fromkeys([*OPTIONS, *(f"from_{name}" for name in FORMATS)])
    options |= {key: words[key] for key in FORMATS[trainer].unsaid}
    file = str(folder / export.translation.trainer.file)
    options |= {"hw": job.hardware.name, "devices": job.strategy.devices, f"from_{trainer}": file}
    merged, imported = with_file(options)
    request = build_request(RequestOptions.model_validate(merged))
    return placed(resolve_strategy(request, job.hardware.backends), imported)


@pytest.mark.parametrize("trainer", EXPORTED)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much]
)
@given(data=st.data())
def test_the_strategy_comes_back(tmp_path_factory, trainer, data):
    job = data.draw(st.sampled_from(JOBS))
    table = points(job)
    strategy = table.strategy(data.draw(st.integers(0, len(table) - 1)))
    plan = _plan(job, strategy)
    try:
        export = export_plan(plan, trainer)
    except BadInputError:
        return  # refused with a reason: tests of refusals are elsewhere
    read = read_back(export, trainer, tmp_path_factory.mktemp("export"))
    assert _comparable(read) == _comparable(export.translation.job.strategy)


def _plan(job: tuple[str, str, int, int], strategy: Strategy) -> Plan:
    model, hw, seq, batch = job
    fields = strategy.model_dump(exclude={"mesh"})
    return make_plan(model, hw, seq=seq, batch=batch, **strategy.mesh.model_dump(exclude={"expert"}), **fields)


def _comparable(strategy: Strategy) -> Strategy:
    """What no program depends on is left out: a scheme without a context axis, a reduction over one rank."""
    mesh = strategy.mesh
    idle = {"scheme": "ring-zigzag"} if mesh.context == 1 else {}
    idle |= {"reduce_dtype": "fp32"} if mesh.fsdp * mesh.context == 1 else {}
    return strategy.model_copy(update=idle)


def test_tiles_of_splash_come_back(tmp_path):
    job = JOBS[3]
    plan = _plan(job, points(job).strategy(0).model_copy(update={"attention_block": 1024}))
    export = export_plan(plan, "maxtext")
    assert "sa_block_q_dkv: 1024" in export.files["maxtext.yml"]
    assert read_back(export, "maxtext", tmp_path).attention_block == 1024


@pytest.mark.parametrize("trainer", EXPORTED)
def test_enough_of_the_random_plans_are_exported_for_the_test_to_mean_something(trainer):
    exported = 0
    for job in JOBS:
        table = points(job)
        for row in np.linspace(0, len(table) - 1, 40).astype(int):
            try:
                export_plan(_plan(job, table.strategy(int(row))), trainer)
            except BadInputError:
                continue
            exported += 1
    assert exported >= 20, f"{trainer} ran {exported} of {40 * len(JOBS)} plans"


@pytest.mark.parametrize("trainer", EXPORTED)
def test_shared_plans_come_back(tmp_path, trainer):
    seen = 0
    for plan in plans().values():
        try:
            export = export_plan(plan, trainer)
        except BadInputError:
            continue
        seen += 1
        assert _comparable(read_back(export, trainer, tmp_path)) == _comparable(export.translation.job.strategy)
    assert seen >= 6
