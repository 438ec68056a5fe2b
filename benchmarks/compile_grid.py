"""Compile a grid of steps for absent machines and keep what the compiler says: ``python benchmarks/compile_grid.py``.

Writes tests/cost_models/data/compiled_steps.json, against which the memory law is tested; with ``--pipelines``
compiled_pipelines.json, of steps with stages, which do not count in the error of steps without. Rows that are there already
stay, unless ``--again``; a GPU row takes 5 to 30 seconds, a TPU row minutes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lcplan.catalog import hardware, model
from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import Strategy
from planner.measure.jobs import compile_jobs
from planner.measure.targets.toolchain import probe
from planner.measure.workers.job import CompileJob
from planner.measure.workers.pool import PoolLimits

DATA, POINTS = Path(__file__).parents[1] / "tests" / "cost_models" / "data", Path(__file__).parent
GRIDS = {
    "steps": ("compile_grid.json", "compiled_steps.json"),
    "pipelines": ("compile_pipelines.json", "compiled_pipelines.json"),
}
MEASURED = ("argument_bytes", "output_bytes", "temp_bytes", "alias_bytes", "host_temp_bytes", "total_bytes")


def job_of(point: dict) -> CompileJob:
    """A point of the grid as a job; ``changes`` to the catalogue's model and ``document_len`` may be left out."""
    sizes = {name: point.get(name) for name in ("seq_len", "global_batch", "document_len")}
    return CompileJob(
        model=ModelSpec.model_validate(model(point["model"]).model_dump() | point.get("changes", {})),
        hardware=hardware(point["hardware"]),
        workload=Workload.model_validate(sizes),
        strategy=Strategy.model_validate(point["strategy"]),
    )


def key_of(point: dict) -> str:
    """What tells points apart."""
    names = ("model", "changes", "hardware", "seq_len", "global_batch", "document_len", "strategy")
    return json.dumps({name: point.get(name) for name in names}, sort_keys=True)


def main(grid: str, *, again: bool) -> None:
    """Compile what is missing, writing after every row."""
    given, written = GRIDS[grid]
    rows_file = DATA / written
    points = {key_of(point): point for point in json.loads((POINTS / given).read_text())}
    known = [] if again or not rows_file.exists() else json.loads(rows_file.read_text())["rows"]
    done = {key_of(row): row for row in known if key_of(row) in points}
    toolchain = probe()
    jobs = {job_of(point): point for key, point in points.items() if key not in done}
    for job, compiled in compile_jobs(list(jobs), toolchain=toolchain, pool=PoolLimits(jobs=1, wall_s=1200.0), store=None):
        point = jobs[job]
        print(point, compiled.total_bytes, compiled.error, flush=True)
        if compiled.error is None and compiled.rung == "compiled:target":
            done[key_of(point)] = {**point, "target": compiled.target, **{name: getattr(compiled, name) for name in MEASURED}}
        rows = [done[key] for key in points if key in done]
        rows_file.write_text(json.dumps({"jax": toolchain.jax, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main("pipelines" if "--pipelines" in sys.argv[1:] else "steps", again="--again" in sys.argv[1:])
