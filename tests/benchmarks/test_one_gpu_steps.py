"""The shapes at which lcplan's step stands beside a plain one, and which of the two executables needs less."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from one_gpu.steps import Shape, rows

from lcplan import catalog
from planner.measure.jobs import compile_jobs
from planner.measure.targets.toolchain import probe
from planner.measure.workers.job import CompileJob
from planner.measure.workers.pool import PoolLimits

PLAIN = Path(__file__).parents[2] / "benchmarks" / "one_gpu" / "plain_step.py"
QUICK = "l2-h16-16k-full"
ABSENT = [name for name in ("jax_cuda12_plugin", "nvidia.cudnn") if importlib.util.find_spec(name) is None]


def test_shapes_are_the_tables():
    shapes = {row.id: Shape.of(row) for row in rows()}
    remat = {name: shape.remat for name, shape in shapes.items()}
    assert {remat.pop("l2-h32-32k-dots"), remat.pop("l2-h32-16k-none")} == {"save-dots", "save-all"}
    assert set(remat.values()) == {"full"}
    wide = shapes["l2-h32-32k-dots"]
    assert (wide.workload.seq_len, wide.workload.global_batch, wide.loss_chunk_tokens) == (32768, 1, 4096)
    assert (wide.model.layers, wide.model.heads, wide.strategy.devices) == (2, 32, 1)
    small = wide.tiny()
    assert (small.model.layers, small.model.d_model, small.workload.seq_len, small.remat) == (2, 128, 512, "save-dots")


@pytest.mark.gpu_target
@pytest.mark.skipif(bool(ABSENT), reason=f"not installed: {', '.join(ABSENT)}")
@pytest.mark.parametrize("row", [pytest.param(r, id=r.id, marks=[] if r.id == QUICK else [pytest.mark.slow]) for r in rows()])
def test_compiled_for_an_h100_lcplans_step_needs_less_than_a_plain_one(row):
    shape = Shape.of(row)
    job = CompileJob(model=shape.model, hardware=catalog.hardware("dgx-h100"), workload=shape.workload, strategy=shape.strategy)
    ((_, ours),) = compile_jobs([job], toolchain=probe(), pool=PoolLimits(), store=None)
    assert (ours.error, ours.kernels) == (None, ("cudnn",))
    request = {"model": row.model, "seq_len": shape.workload.seq_len, "remat": shape.remat}
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""}
    done = subprocess.run(
        [sys.executable, str(PLAIN), json.dumps(request)], capture_output=True, text=True, check=True, env=environment
    )
    sizes = json.loads(done.stdout.splitlines()[-1])
    assert ours.total_bytes < 0.98 * (sizes["argument"] + sizes["output"] + sizes["temp"] - sizes["alias"])
