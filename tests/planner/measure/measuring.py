"""A small job to measure, and a store in a dict: what the measuring and study tests share."""

from __future__ import annotations

from collections.abc import Callable

from lcplan import catalog
from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy
from planner.measure.workers.job import RING, CompileJob, Program

MakeJob = Callable[..., CompileJob]


def ring_job(hardware: str = "cpu-host", program: Program = RING, layers: int = 2, **more) -> CompileJob:
    """A small ring step; keywords: hardware, program, layers, and mesh axes or other fields of the strategy."""
    mesh = {axis: more.pop(axis) for axis in list(more) if axis in Mesh.model_fields}
    backend = {"gpu": "nccl", "rocm": "rccl", "tpu": "ici", "cpu": "host"}[catalog.hardware(hardware).compiler]
    return CompileJob(
        model=ModelSpec(name="ring", layers=layers, d_model=64, d_ff=64, heads=2, kv_heads=2, head_dim=32, vocab=64),
        hardware=catalog.hardware(hardware),
        workload=Workload(seq_len=256, global_batch=1),
        strategy=Strategy(mesh=Mesh(**mesh), **{"backend": backend, **more}),
        program=program,
    )


def odd_program(name: str) -> Program:
    """A program of ``odd_programs`` by its module's name."""
    return Program(module=f"odd_programs.{name}", packages=("lcplan", "planner", "odd_programs"))


class MemoryStore:
    """A store in a dict."""

    def __init__(self) -> None:
        self.served: set[CompileJob] = set()
        self.kept: dict[str, dict] = {}

    def get(self, key: str) -> dict | None:
        return self.kept.get(key)

    def put(self, key: str, *, rung: str, strategy: dict, result: dict) -> None:
        self.kept[key] = result
