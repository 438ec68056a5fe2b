"""Versions of the packages that a Python has; as a script it prints them as JSON, under any Python from 3.9 on."""

from __future__ import annotations

import json
import platform
import shutil
import sys
from importlib import metadata

DISTRIBUTIONS = {
    "jax": "jax",
    "jaxlib": "jaxlib",
    "cuda12_plugin": "jax-cuda12-plugin",
    "cuda13_plugin": "jax-cuda13-plugin",
    "cuda12_pjrt": "jax-cuda12-pjrt",
    "cuda13_pjrt": "jax-cuda13-pjrt",
    "nvcc12": "nvidia-cuda-nvcc-cu12",
    "nvcc13": "nvidia-cuda-nvcc",
    "cudnn12": "nvidia-cudnn-cu12",
    "cudnn13": "nvidia-cudnn-cu13",
    "rocm7_pjrt": "jax-rocm7-pjrt",
    "rocm10_pjrt": "jax-rocm10-pjrt",
    "libtpu": "libtpu",
    "flax": "flax",
    "optax": "optax",
    "pydantic": "pydantic",
    "pyyaml": "PyYAML",
    "jaxtyping": "jaxtyping",
    "numpy": "numpy",
    "maxtext": "maxtext",
}


def installed() -> dict[str, str]:
    """Versions by our own short names, without absent packages; ``python`` and ``ptxas`` (a path) too."""
    found = {"python": platform.python_version()}
    for key, name in DISTRIBUTIONS.items():
        try:
            found[key] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    path = shutil.which("ptxas")
    if path:
        found["ptxas"] = path
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(installed()) + "\n")
