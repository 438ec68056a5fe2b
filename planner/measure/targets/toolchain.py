"""A toolchain: one Python with one jax and its plugins, the targets that it compiles for and its real backends."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Literal

from lcplan.formats.errors import BadInputError
from lcplan.formats.frozen import Frozen
from planner.measure.targets.backends import FIRST_GPU_TARGET, GPU_BACKENDS, backend_verdict
from planner.measure.targets.compile_option import Verdict, dotted, version_of
from planner.measure.targets.installed import installed

PROBE_S = 30.0
NEEDED = ("jax", "jaxlib", "flax", "optax", "pydantic", "pyyaml", "jaxtyping", "numpy")
"""Packages that a worker imports."""
FIRST_PYTHON = (3, 11)
ROCM_PLUGINS = ("rocm10_pjrt", "rocm7_pjrt")
"""Packages of XLA for AMD, the one that a worker takes first."""
GPU_WAY_OUT = 'pip install "lcplan[gpu]"'
ROCM_WAY_OUT = 'pip install "lcplan[rocm]"'
TPU_WAY_OUT = 'pip install "lcplan[tpu]"'


class Toolchain(Frozen):
    """The result of ``probe``. ``targets`` are keyed by kind of hardware, ``backends`` by name; True or the reason against."""

    python: str
    jax: str | None
    versions: dict[str, str]
    targets: dict[str, Verdict]
    backends: dict[str, Verdict]

    @property
    def rocm(self) -> Literal["rocm7", "rocm10"] | None:
        """Generation of the plugin of XLA for AMD; the newest of several."""
        if "rocm10_pjrt" in self.versions:
            return "rocm10"
        return "rocm7" if "rocm7_pjrt" in self.versions else None

    @property
    def cuda(self) -> Literal["cuda12", "cuda13"] | None:
        """The CUDA plugin's generation."""
        if "cuda12_plugin" in self.versions:
            return "cuda12"
        return "cuda13" if "cuda13_plugin" in self.versions else None

    @property
    def kernels(self) -> tuple[str, ...]:
        """Attention kernels of others that it can compile."""
        return ("cudnn",) if "cudnn" in self.versions and self.targets.get("gpu") is True else ()


def probe(python: str | Path | None = None) -> Toolchain:
    """Look at a Python's installed packages; imports no jax and takes well under a second.

    Raises
    ------
    BadInputError
        No such Python, or it does not answer.
    """
    path = _resolved(str(python) if python else sys.executable)
    return _read(path, _here() if path == sys.executable else _ask(path))


def _resolved(python: str) -> str:
    """The absolute path, symlinks kept: a venv's python is a link, and the venv is found by the link's folder."""
    folder = Path(python)
    for candidate in (folder / "bin" / "python", folder) if folder.is_dir() else (folder,):
        found = shutil.which(str(candidate))
        if found:
            return str(Path(found).absolute())
    raise BadInputError(f"toolchain {python}: no such Python; give the path of an executable or of a virtual environment")


@lru_cache(maxsize=1)
def _here() -> dict[str, str]:
    return installed()


@lru_cache(maxsize=16)
def _ask(python: str) -> dict[str, str]:
    script = Path(__file__).with_name("installed.py")
    clean = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    try:
        answer = subprocess.run(
            [python, "-I", str(script)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PROBE_S,
            env=clean,
            check=False,
        )
        found = json.loads(answer.stdout.splitlines()[-1]) if answer.returncode == 0 and answer.stdout else None
    except subprocess.TimeoutExpired:
        raise BadInputError(f"toolchain {python}: no answer within {PROBE_S:.0f} s") from None
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise BadInputError(f"toolchain {python}: does not answer like a Python 3.11 or newer")
    return found


def _read(path: str, found: dict[str, str]) -> Toolchain:
    versions = dict(found)
    cuda = "12" if "cuda12_plugin" in found else "13"
    if f"cudnn{cuda}" in found:
        versions["cudnn"] = found[f"cudnn{cuda}"]
    host = _host(versions)
    gpu, rocm, tpu = (host,) * 3 if host is not True else (_gpu(versions, cuda), _rocm(versions), _tpu(versions))
    jax = versions.get("jax")
    backends: dict[str, Verdict] = {
        name: gpu if gpu is not True else backend_verdict(name, jax or "0") for name in GPU_BACKENDS
    }
    backends["rccl"] = rocm
    backends["ici"] = tpu
    backends["host"] = host
    targets: dict[str, Verdict] = {"gpu": gpu, "rocm": rocm, "tpu": tpu, "cpu": host}
    return Toolchain(python=path, jax=jax, versions=versions, targets=targets, backends=backends)


def _host(versions: dict[str, str]) -> Verdict:
    if version_of(versions.get("python", "0"))[:2] < FIRST_PYTHON:
        return f"Python {versions.get('python')} is older than 3.11"
    missing = [name for name in NEEDED if name not in versions]
    return f"not installed: {', '.join(missing)}" if missing else True


def _gpu(versions: dict[str, str], cuda: str) -> Verdict:
    jax = versions["jax"]
    plugin = versions.get(f"cuda{cuda}_plugin")
    if plugin is None:
        return f"no CUDA plugin: {GPU_WAY_OUT}"
    if version_of(jax) < FIRST_GPU_TARGET:
        return f"jax {jax} cannot compile for an absent GPU; 0.9.2 and newer can: {GPU_WAY_OUT}"
    if version_of(plugin) != version_of(jax) or f"cuda{cuda}_pjrt" not in versions:
        return f"jax-cuda{cuda}-plugin {plugin} does not go with jax {jax}; install the same version of both: {GPU_WAY_OUT}"
    if f"nvcc{cuda}" not in versions and "ptxas" not in versions:
        return f"no ptxas (nvidia-cuda-nvcc): {GPU_WAY_OUT}"
    return True


def _rocm(versions: dict[str, str]) -> Verdict:
    """Whether XLA for AMD is here: ROCm itself is not needed (``planner/measure/rocm``)."""
    jax = versions["jax"]
    found = [name for name in ROCM_PLUGINS if name in versions]
    if not found:
        return f"no XLA for AMD GPUs: {ROCM_WAY_OUT}"
    if version_of(jax) < FIRST_GPU_TARGET:
        return f"jax {jax} cannot compile for an absent GPU; {dotted(FIRST_GPU_TARGET)} and newer can: {ROCM_WAY_OUT}"
    plugin = versions[found[0]]
    if version_of(plugin)[:3] != version_of(jax)[:3]:
        package = f"jax-{found[0].replace('_', '-')}"
        return f"{package} {plugin} does not go with jax {jax}; install the same version of both: {ROCM_WAY_OUT}"
    return True


def _tpu(versions: dict[str, str]) -> Verdict:
    return True if "libtpu" in versions else f"no libtpu: {TPU_WAY_OUT}"
