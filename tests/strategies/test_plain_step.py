"""A plain one-device step compiled for an H100 that is not there, against the allocator's peak on one that was."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cost_models.memory.plain_jax import device_gap_bytes
from planner.validate.sources.bundled import find_table

ROOT = Path(__file__).parents[2]
TABLE = find_table("h100-single-device")[0]
QUICK = "l2-h32-16k-full"
ABSENT = [name for name in ("jax_cuda12_plugin", "nvidia.cudnn") if importlib.util.find_spec(name) is None]


def compiled_bytes(row):
    """Argument, output and temp less alias, of a deviceless compile."""
    request = {"model": row.model, "seq_len": row.workload.seq_len, "remat": row.id.rsplit("-", 1)[1]}
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "one_gpu" / "plain_step.py"), json.dumps(request)],
        env=dict(os.environ, JAX_PLATFORMS="cpu", XLA_FLAGS=""),
        cwd=ROOT, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    sizes = json.loads(done.stdout.splitlines()[-1])
    return sizes["argument"] + sizes["output"] + sizes["temp"] - sizes["alias"]


@pytest.mark.gpu_target
@pytest.mark.skipif(bool(ABSENT), reason=f"not installed: {', '.join(ABSENT)}")
@pytest.mark.parametrize(
    "row", [pytest.param(r, id=r.id, marks=[] if r.id == QUICK else [pytest.mark.slow]) for r in TABLE.rows]
)
def test_a_deviceless_compile_and_the_named_gap_are_the_allocators_peak(row):
    need = compiled_bytes(row) + device_gap_bytes(row.model["vocab"], row.model["d_model"])
    assert need == pytest.approx(row.measured.peak_bytes, rel=0.02)
