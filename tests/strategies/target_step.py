"""Compiles a full-size step for devices that are not there; a script, for a bad target aborts its process.

``target_step.py JSON`` with the fields of ``REQUEST``; prints one JSON line. Stands in its own process: JAX_PLATFORMS=cpu.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from described_devices import described_devices
from schedule import products_beside_hops, products_beside_host_copies, ring_loops

from lcplan import catalog
from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import Strategy
from planner.measure.hlo.executable import read_executable
from planner.measure.hlo.groups import MeshView
from planner.measure.hlo.libtpu_memory import dump_options, temporaries
from strategies.inputs.step_spec import StepSpec
from strategies.kernels import default_kernel
from strategies.parallel.mesh import build_mesh
from strategies.train.step import build_step

REQUEST: dict[str, Any] = {
    "hardware": "gb200-nvl72",
    "model": "llama3-8b",
    "changes": {},
    "seq_len": 262144,
    "global_batch": 1,
    "document_len": None,
    "strategy": {},
    "options": {},
}


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Memory in bytes a device, collectives as rows, attention kernels."""
    hardware, strategy = catalog.hardware(request["hardware"]), Strategy(**request["strategy"])
    sizes = {name: request[name] for name in ("seq_len", "global_batch", "document_len")}
    workload = Workload(**sizes)
    model = ModelSpec.model_validate(catalog.model(request["model"]).model_dump() | request["changes"])
    spec = StepSpec(model, workload, strategy, default_kernel(hardware.kind))
    step = build_step(spec, build_mesh(strategy, described_devices(hardware, strategy.devices)))
    with TemporaryDirectory() as folder:
        options = request["options"] | (dump_options(folder) if hardware.kind == "tpu" else {})
        compiled = step.jitted.lower(*step.abstract_arguments()).compile(options)
        exact_temp = temporaries(Path(folder))
    memory, text = compiled.memory_analysis(), compiled.as_text()
    facts = read_executable(text, mesh=MeshView(strategy.mesh_axes, strategy.mesh_shape), kind=hardware.kind)
    return {
        "argument_bytes": memory.argument_size_in_bytes,
        "alias_bytes": memory.alias_size_in_bytes,
        "temp_bytes": memory.temp_size_in_bytes if exact_temp is None else exact_temp,
        "host_temp_bytes": memory.host_temp_size_in_bytes,
        "kernels": facts.kernels,
        "schedule": facts.schedule.model_dump(),
        "ring_loops": ring_loops(text),
        "products_beside_hops": products_beside_hops(text),
        "products_beside_host_copies": products_beside_host_copies(text),
        "collectives": [(use.op, use.axis, use.bytes, use.calls) for use in facts.collectives],
    }


if __name__ == "__main__":
    print(json.dumps(main(REQUEST | json.loads(sys.argv[1]))))
