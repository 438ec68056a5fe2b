"""The job of a worker: compile or time one strategy's step."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from lcplan.formats.frozen import Frozen
from lcplan.parts import Part
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.model import ModelSpec
from lcplan.spec.rollout_workloads import AnyWorkload
from lcplan.strategy import Strategy
from lcplan.strategy.attention_kernel import AttentionKernel
from planner.measure.targets.host import host_name
from planner.measure.targets.target import Target
from planner.measure.targets.toolchain import Toolchain

Purpose = Literal["compile", "time", "slice"]
"""``time``: the whole step; ``slice``: one rank of it, on one device."""


class Program(Frozen):
    """A module with ``StepSpec`` and ``build_step``, and the packages whose source decides its executable."""

    name: str = "train_step"
    """The key of its figures where a workload has several programs."""
    module: str = "strategies.train.step"
    packages: tuple[str, ...] = ("lcplan", "planner", "strategies")

    @property
    def folders(self) -> dict[str, str]:
        """The folder of each package."""
        return {name: _folder(name) for name in self.packages}

    @property
    def version(self) -> str:
        """Content hash of the source that decides a result."""
        return _source_hash(self.packages)


STEP = Program()
PREFILL = Program(name="prefill", module="strategies.rollout.prefill_step")
DECODE = Program(name="decode", module="strategies.rollout.step")
RESHARD = Program(name="reshard", module="strategies.rl.reshard_step")
SCORINGS = {name: Program(name=name, module=f"strategies.rl.{name}") for name in ("old_log_probs", "reference_log_probs")}
"""Forward passes over sampled sequences (``RlWorkload.scorings``)."""
UPDATE = Program(module="strategies.rl.update_step")
"""The policy update: a train step, under the train step's name."""
RING = Program(module="planner.measure.targets.ring_program", packages=("lcplan", "planner"))
"""A small ring, by which a toolchain is tried."""
PROGRAMS = (STEP, PREFILL, DECODE, RESHARD, *SCORINGS.values(), UPDATE, RING)
"""All programs. A worker of an engine runs no others."""


class CompileJob(Frozen):
    """One strategy of one request. The budget is no part of it: it does not change the program."""

    model: ModelSpec
    hardware: HardwareSpec
    workload: AnyWorkload
    strategy: Strategy
    program: Program = STEP
    calls: int = 1
    """Runs of the compiled program in one step of the workload."""
    resident_bytes: int = 0
    """Arrays of the workload's other programs that stay in memory while this one runs [bytes per device]."""

    def __hash__(self) -> int:
        """Hash the fields that differ between jobs of one search; specs hold dicts, which have no hash."""
        return hash((self.model.name, self.hardware.name, self.workload, self.strategy))


class WorkerJob(Frozen):
    """A job as it goes to a worker: resolved for a target, with all that the result depends on."""

    purpose: Purpose
    program: str
    model: ModelSpec
    workload: AnyWorkload
    strategy: Strategy
    target: Target
    kernel: str


class PartJob(Frozen):
    """One part (``strategies.parts``) to compile, or to time on the devices at hand."""

    purpose: Literal["compile", "time"]
    part: Part
    strategy: Strategy
    target: Target
    kernel: AttentionKernel


def resolve(job: CompileJob, target: Target, *, purpose: Purpose, kernel: str) -> WorkerJob:
    """The job for a worker."""
    return WorkerJob(
        purpose=purpose,
        program=job.program.module,
        model=job.model,
        workload=job.workload,
        strategy=job.strategy,
        target=target,
        kernel=kernel,
    )


def job_key(job: CompileJob, resolved: WorkerJob, *, toolchain: Toolchain) -> str:
    """Hash of everything that decides the result: program, shapes, mesh, target, flags, toolchain.

    Names and notes of the model are left out: they change no program.
    """
    facts: dict[str, Any] = resolved.model_dump(mode="json")
    for cosmetic in ("name", "source", "notes", "max_position"):
        facts["model"].pop(cosmetic, None)
    facts["workload"].pop("global_batch_given", None)
    machine = host_name() if resolved.purpose != "compile" and resolved.target.platform == "cpu" else ""
    versions = {key: value for key, value in toolchain.versions.items() if key not in ("ptxas", "pydantic", "pyyaml")}
    text = json.dumps([job.program.version, facts, versions, machine], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _folder(package: str) -> str:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"package {package!r} is not installed in lcplan's Python")
    return next(iter(spec.submodule_search_locations))


@lru_cache(maxsize=8)
def _source_hash(packages: tuple[str, ...]) -> str:
    """Hash the packages' source; of planner only the measuring part, since the rest of it decides no result."""
    digest = hashlib.sha256()
    for package in packages:
        root = Path(_folder(package)) / ("measure" if package == "planner" else "")
        for file in sorted(root.rglob("*.py")):
            digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()
