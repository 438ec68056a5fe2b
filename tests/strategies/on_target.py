"""Steps compiled for devices that are not there, each in a process of its own (``target_step.py``)."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent


def compiled(**request: Any) -> dict[str, Any]:
    """What ``target_step.py`` says of ``request``."""
    said: dict[str, Any] = said_by("target_step.py", **request)
    return said


def said_by(script: str, **request: Any) -> Any:
    """What a script of this folder prints of ``request``, in a process of its own."""
    environment = dict(os.environ, JAX_PLATFORMS="cpu", TPU_SKIP_MDS_QUERY="1", ALLOW_MULTIPLE_LIBTPU_LOAD="1", XLA_FLAGS="")
    done = subprocess.run(
        [sys.executable, str(FOLDER / script), json.dumps(request)],
        env=environment, cwd=FOLDER.parents[1], capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def needs(*packages: str) -> pytest.MarkDecorator:
    """Skips where one of ``packages`` is not installed."""
    absent = [package for package in packages if importlib.util.find_spec(package) is None]
    return pytest.mark.skipif(bool(absent), reason=f"not installed: {', '.join(absent)}")


needs_gpu_compiler = needs("jax_cuda12_plugin", "nvidia.cudnn")
needs_tpu_compiler = needs("libtpu")
