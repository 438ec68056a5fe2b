"""Temporaries of a TPU executable, from its buffer assignment."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from planner.measure.hlo.libtpu_memory import dump_options, temporaries
from planner.measure.targets.toolchain import Toolchain
from planner.measure.workers.process import clean_environment

ASSIGNMENT = """BufferAssignment:
allocation 0: size 512, thread-local:
 value: <76 reduce_sum.443 @0> (size=512,offset=0): s32[]{:T(128)}
allocation 1: size 805306368, parameter 9, shape |f32[4,2048,32,768]| at ShapeIndex {}, maybe-live-out:
allocation 2: size 4096, preallocated-temp:
 value: <9 preallocated-temp @0> (size=77,offset=0): f32[4]
allocation 3: size 44050432, color 1, preallocated-temp:
allocation 4: size 1024, preallocated-temp:
"""

PAGED = """BufferAssignment:
allocation 314: size 512, page 0, thread-local:
allocation 315: size 4096, color 6, page 0, preallocated-temp:
allocation 317: size 12329680928, page 0, preallocated-temp:
allocation 318: size 48300544, color 1, page 0, preallocated-temp:
"""
"""Lines of libtpu 0.0.48."""

PROGRAM = """
import json, sys
from pathlib import Path
import jax, jax.numpy as jnp, numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from planner.measure.hlo.libtpu_memory import dump_options, temporaries

def step(w, x):
    y, _ = jax.lax.scan(lambda x, w: (jnp.tanh(x @ w) @ jnp.tanh(w.T @ w) + x, None), x, w)
    return w * y.sum(), jnp.sort(jnp.concatenate([y, y * 2], 1), axis=0)

devices = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2").devices
everywhere = NamedSharding(Mesh(np.array(devices, dtype=object), ("x",)), P())
arguments = [jax.ShapeDtypeStruct(shape, jnp.float32, sharding=everywhere) for shape in ((6, 1024, 1024), (2048, 1024))]
lowered = jax.jit(step, donate_argnums=0).lower(*arguments)
said = lowered.compile(compiler_options=dump_options(sys.argv[1])).memory_analysis().temp_size_in_bytes
print(json.dumps([said, temporaries(Path(sys.argv[1]))]))
"""


def test_temporaries_are_those_in_hbm(tmp_path: Path) -> None:
    (tmp_path / "module_0007.jit_step.after_optimizations-buffer-assignment.txt").write_text(ASSIGNMENT)
    (tmp_path / "module_0007.jit_step.after_optimizations-buffer-assignment-values.txt").write_text("allocation 9: size 9999")
    (tmp_path / "module_0001.jit_small.cpu_after_optimizations-buffer-assignment.txt").write_text("BufferAssignment:\n")
    assert temporaries(tmp_path) == 4096 + 1024


def test_temporaries_of_a_libtpu_that_names_pages(tmp_path: Path) -> None:
    (tmp_path / "module_0000.jit_step.after_optimizations-buffer-assignment.txt").write_text(PAGED)
    assert temporaries(tmp_path) == 12329680928


def test_temporaries_in_an_unknown_format_are_not_zero(tmp_path: Path) -> None:
    changed = PAGED.replace("page 0, preallocated-temp", "sheet 0, preallocated-temp")
    (tmp_path / "module_0000.jit_step.after_optimizations-buffer-assignment.txt").write_text(changed)
    assert temporaries(tmp_path) is None, "memory_analysis() decides"


def test_without_a_dump_nothing_is_known(tmp_path: Path) -> None:
    assert temporaries(tmp_path) is None
    assert dump_options("/a/folder")["xla_dump_to"] == "/a/folder"


@pytest.mark.slow
@pytest.mark.tpu_target
def test_fragmentation_is_counted_once(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env={**clean_environment(()), "JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    said, exact = json.loads(done.stdout.splitlines()[-1])
    assert 16 * 2**20 <= exact < said  # y and twice y take 8 MiB each
