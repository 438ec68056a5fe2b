"""Record the operations of lcplan's own compiled steps, which tests/cost_models/test_step_executions.py prices.

Run it after a change of the train step or of the reader: ``python benchmarks/step_executions.py [ID ..]`` (CPU only; about five
seconds of CPU per step for GPUs, a minute for TPUs).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.update(
    {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1", "TPU_LOG_DIR": "disabled"}
)

from lcplan import catalog
from lcplan.spec.workload import Workload
from lcplan.strategy import Strategy
from planner.measure.hlo.executable import CollectiveWalk
from planner.measure.hlo.groups import MeshView
from planner.measure.hlo.operations import read_execution
from planner.measure.hlo.text import parse_module
from planner.measure.targets.toolchain import probe
from planner.measure.work import ProgramWork
from planner.measure.workers.job import CompileJob

OUT = Path(__file__).parents[1] / "tests" / "cost_models" / "data" / "step_executions.json"


def job_of(case: dict[str, Any]) -> CompileJob:
    """Return the job of a case."""
    hardware = catalog.hardware(case["hardware"])
    strategy = {"mesh": case["mesh"], "backend": hardware.backends[0], **case["knobs"]}
    return CompileJob(
        model=catalog.model(case["model"]),
        hardware=hardware,
        workload=Workload(seq_len=case["seq_len"], global_batch=case["global_batch"]),
        strategy=Strategy.model_validate(strategy),
    )


def recorded(case: dict[str, Any]) -> dict[str, Any]:
    """Compile a case and return it with its operations."""
    from planner.measure.workers.worker import _step

    job = job_of(case)
    work = ProgramWork(job, "compile", toolchain=probe())
    step = _step(work.resolved)
    lowered = step.jitted.lower(*step.abstract_arguments())
    text = lowered.compile(compiler_options=dict(work.target.compiler_options) or None).as_text()
    view = MeshView(job.strategy.mesh_axes, job.strategy.mesh_shape, segment=work.target.segment)
    module = parse_module(text)
    execution = read_execution(module, mesh=view, walk=CollectiveWalk(module, view, work.target.compiler))
    return case | {"execution": compact(execution.model_dump(mode="json"))}


DEFAULTS: dict[str, Any] = {"flop": 0.0, "bytes": 0.0, "dtype": "bf16", "keys": 0.0, "head_dim": 0, "backward": False}
DEFAULTS |= {"calls": 1, "stride": 1, "inner": 1, "crosses": 1, "number": None, "unknown": {}}


def compact(value: Any) -> Any:
    """Return a document without the fields that have their defaults."""
    if isinstance(value, dict):
        return {key: compact(one) for key, one in value.items() if key not in DEFAULTS or one != DEFAULTS[key]}
    return [compact(one) for one in value] if isinstance(value, list) else value


def main(names: list[str]) -> None:
    """Record the named cases, or all."""
    cases = json.loads(OUT.read_text())
    plain = [{name: value for name, value in case.items() if name != "execution"} for case in cases]
    made = [recorded(one) if not names or one["id"] in names else case for one, case in zip(plain, cases, strict=True)]
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in made)
    OUT.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main(sys.argv[1:])
