"""The jax target: import the module under its own flags and lower its programs on as many host devices. Compiles nothing."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

from lcplan_checker import answer


def check(request: dict[str, Any]) -> dict[str, Any]:
    """Facts of the lowered programs."""
    devices = request["devices"]
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{flags} {' '.join(request.get('flags', ()))} --xla_force_host_platform_device_count={devices}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    spec = importlib.util.spec_from_file_location("train_step", request["file"])
    if spec is None or spec.loader is None:
        raise ImportError(f"{request['file']} is no Python module")
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.KERNEL = "blockwise"  # cuDNN's kernel lowers for a GPU only
    mesh = module.make_mesh()
    facts = {"devices": devices, "mesh": {axis: int(size) for axis, size in mesh.shape.items()}}
    if hasattr(module, "programs"):
        lowered = [jitted.lower(*arguments) for jitted, arguments in module.programs(mesh)]
        return facts | {"programs": len(lowered), "global_batch": module.BATCH, "seq_len": module.PROMPT + module.GENERATE}
    step = module.example_step(mesh)
    step.jitted.lower(*step.abstract_arguments())
    return facts | {"shardings": len(module.shardings(mesh)), "saved": list(module.SAVED)}


if __name__ == "__main__":
    answer(check, "jax")
