"""Compiles a decode step for devices that are not there; a script, for a bad target aborts its process.

``target_decode.py JSON`` with the fields of ``REQUEST``; prints one JSON line. Stands in its own process: JAX_PLATFORMS=cpu.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from described_devices import described_devices

from lcplan import catalog
from lcplan.spec.model import ModelSpec
from lcplan.spec.rollout_workloads import SampleWorkload
from lcplan.strategy import Mesh, Sampling, Strategy
from planner.measure.hlo.libtpu_memory import dump_options, temporaries
from strategies.kernels import default_kernel
from strategies.parallel.mesh import build_mesh
from strategies.rollout.step import SampleSpec, build_step

REQUEST: dict[str, Any] = {
    "hardware": "tpu-v4-32",
    "model": "qwen3-1.7b",
    "changes": {},
    "work": {},
    "mesh": {"data": 16},
    "parameters": "replicated",
}


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Return the memory in bytes per device, and the lines of the executable that copy an array of four or more dimensions."""
    hardware, mesh = catalog.hardware(request["hardware"]), Mesh(**request["mesh"])
    strategy = Strategy(mesh=mesh, sampling=Sampling(mesh=mesh, parameters=request["parameters"]))
    model = ModelSpec.model_validate(catalog.model(request["model"]).model_dump() | request["changes"])
    spec = SampleSpec(model, SampleWorkload(**request["work"]), strategy, default_kernel(hardware.kind))
    step = build_step(spec, build_mesh(strategy, described_devices(hardware, mesh.devices)))
    with TemporaryDirectory() as folder:
        options = dump_options(folder) if hardware.kind == "tpu" else {}
        compiled = step.jitted.lower(*step.abstract_arguments()).compile(options)
        exact_temp = temporaries(Path(folder))
    memory, slots = compiled.memory_analysis(), min(spec.slots(kind) for kind in model.layer_kinds)
    shape = f",{slots},{model.head_dim}]"
    # libtpu renames the tiles of an fp8 array by a copy that aliases its input, inside a fusion.
    copied = [line for line in compiled.as_text().splitlines() if shape in line and " copy(" in line and "(%input" not in line]
    return {
        "argument_bytes": memory.argument_size_in_bytes,
        "alias_bytes": memory.alias_size_in_bytes,
        "temp_bytes": memory.temp_size_in_bytes if exact_temp is None else exact_temp,
        "copies": len(copied),
    }


if __name__ == "__main__":
    print(json.dumps(main(REQUEST | json.loads(sys.argv[1]))))
