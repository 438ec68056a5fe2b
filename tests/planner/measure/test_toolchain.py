"""What a Python is found to have, and what follows; foreign and broken Pythons."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from measuring import MakeJob

from lcplan.formats.errors import BadInputError
from planner.measure.jobs import compile_jobs
from planner.measure.targets.toolchain import GPU_WAY_OUT, TPU_WAY_OUT, Toolchain, probe
from planner.measure.workers.pool import PoolLimits

NEEDED = '"jaxlib": "0.10.1", "flax": "0.12", "optax": "0.2", "pydantic": "2", "pyyaml": "6", "jaxtyping": "0.3", "numpy": "2"'


def fake_python(folder: Path, answer: str) -> Path:
    """An executable that answers every question with ``answer``."""
    file = folder / "python"
    file.write_text(f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\n")
    file.chmod(0o755)
    return file


def found(folder: Path, versions: str, python: str = "3.11.7") -> Toolchain:
    return probe(fake_python(folder, f'{{"python": "{python}", {NEEDED}{", " if versions else ""}{versions}}}'))


def test_this_python_is_its_own_toolchain(toolchain: Toolchain) -> None:
    assert toolchain.python == sys.executable
    assert toolchain.targets["cpu"] is True
    assert toolchain.backends["host"] is True
    assert toolchain.jax == toolchain.versions["jax"]


def test_probing_imports_nothing_heavy() -> None:
    code = "import sys; from planner.measure import probe; probe(); print([m for m in ('jax', 'optuna') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


@pytest.mark.parametrize(
    ("versions", "gpu", "nvshmem"),
    [
        ('"jax": "0.10.1"', f"no CUDA plugin: {GPU_WAY_OUT}", f"no CUDA plugin: {GPU_WAY_OUT}"),
        ('"jax": "0.10.1", "cuda12_plugin": "0.10.1", "cuda12_pjrt": "0.10.1", "nvcc12": "12.9"', True, True),
        (
            '"jax": "0.12.0", "cuda13_plugin": "0.12.0", "cuda13_pjrt": "0.12.0", "nvcc13": "13.0"',
            True,
            "jax 0.12.0 has no real",
        ),
        (
            '"jax": "0.10.1", "cuda12_plugin": "0.10.2", "cuda12_pjrt": "0.10.2", "nvcc12": "12.9"',
            "does not go with jax 0.10.1",
            "",
        ),
        ('"jax": "0.10.1", "cuda12_plugin": "0.10.1", "nvcc12": "12.9"', "does not go with", ""),
        ('"jax": "0.10.1", "cuda12_plugin": "0.10.1", "cuda12_pjrt": "0.10.1"', "no ptxas", ""),
        ('"jax": "0.8.2", "cuda12_plugin": "0.8.2", "cuda12_pjrt": "0.8.2"', "jax 0.8.2 cannot compile for an absent GPU", ""),
    ],
)
def test_gpu_verdicts(tmp_path: Path, versions: str, gpu: object, nvshmem: object) -> None:
    toolchain = found(tmp_path, versions)
    for verdict, expected in ((toolchain.targets["gpu"], gpu), (toolchain.backends["nvshmem"], nvshmem)):
        assert verdict is True if expected is True else str(expected) in str(verdict)
    assert toolchain.targets["cpu"] is True
    assert toolchain.targets["tpu"] == f"no libtpu: {TPU_WAY_OUT}"


def test_what_a_worker_needs_is_named_where_it_is_missing(tmp_path: Path) -> None:
    bare = probe(fake_python(tmp_path, '{"python": "3.12.1", "numpy": "2.0"}'))
    assert bare.jax is None
    assert bare.targets["cpu"] == "not installed: jax, jaxlib, flax, optax, pydantic, pyyaml, jaxtyping"
    assert bare.targets["gpu"] == bare.backends["nccl"] == bare.targets["cpu"]


def test_an_old_python_is_named(tmp_path: Path) -> None:
    assert found(tmp_path, '"jax": "0.6.2"', python="3.10.4").targets["cpu"] == "Python 3.10.4 is older than 3.11"


@pytest.mark.parametrize("answer", ["hello", "", '["a list"]', '{"python": 3}', "{"])
def test_what_is_no_python_is_bad_input(tmp_path: Path, answer: str) -> None:
    with pytest.raises(BadInputError, match="does not answer like a Python"):
        probe(fake_python(tmp_path, answer))


def test_a_python_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no such Python; give the path"):
        probe(tmp_path / "nowhere" / "python")
    (tmp_path / "text").write_text("not executable")
    with pytest.raises(BadInputError, match="no such Python"):
        probe(tmp_path / "text")


def test_a_virtual_environment_elsewhere_compiles_without_lcplan_in_it(tmp_path: Path, make_job: MakeJob) -> None:
    venv.create(tmp_path / "v", symlinks=True)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(tmp_path / "v"), "platbase": str(tmp_path / "v")}))
    (site / "theirs.pth").write_text(sysconfig.get_path("purelib") + "\n")  # jax and all, but no .pth files of there: no lcplan
    toolchain = probe(tmp_path / "v")  # a folder is taken for a virtual environment
    assert toolchain.python == str(tmp_path / "v" / "bin" / "python")
    ((_, row),) = compile_jobs([make_job(context=2)], toolchain=toolchain, pool=PoolLimits(), store=None)
    assert row.error is None
    assert row.total_bytes is not None


@pytest.mark.gpu_target
def test_a_deep_probe_believes_the_executable(gpu_toolchain: Toolchain) -> None:
    from planner.measure.real_backends import seen

    only = gpu_toolchain.model_copy(
        update={
            "targets": {"gpu": True, "rocm": "not here", "tpu": "not here", "cpu": True},
            "backends": {
                "nccl": True,
                "nvshmem": True,
                "symmetric": "never",
                "rccl": "not here",
                "ici": "not here",
                "host": True,
            },
            # a jax that lacks the option: the worker is this jax, but is asked without it
            "jax": "0.10.2",
        }
    )
    deep = seen(only)
    assert deep.backends["nccl"] is True
    assert deep.backends["nvshmem"] == "jax 0.10.2 takes the option, but permutes go by nccl"
    assert deep.backends["symmetric"] == "never"
    assert deep.targets == {"gpu": True, "rocm": "not here", "tpu": "not here", "cpu": True}
