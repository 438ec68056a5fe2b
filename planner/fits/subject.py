"""The subject of a gate: a plan, a run folder or a step file, compiled or with the compile that it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lcplan.evidence.execution import StepCompiled
from lcplan.evidence.measurement import Compiled
from lcplan.evidence.step_plan import KIND, StepPlan
from lcplan.formats.errors import BadInputError
from lcplan.formats.textfile import read_json, read_yaml
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.own_step import StepStrategy
from planner.fits.footprint import Footprint
from planner.measure.step_file.file import StepFile
from planner.measure.targets.toolchain import Toolchain, probe
from planner.measure.workers.pool import PoolLimits
from planner.own_step.candidate import StepCandidate
from planner.own_step.request import StepOptions, StepRequest, build_step_request
from planner.own_step.search import StepBench
from planner.own_step.space import Declared, enumerate_points
from planner.run.measuring import Bench
from planner.run.run_read import Run, read_run
from planner.workloads.pricing import price


@dataclass(frozen=True)
class Asked:
    """The options that name the subject. ``hw`` None: the hardware of the plan or the run."""

    subject: Path
    hw: str | None = None
    step: str | None = None
    seq: int | None = None
    global_batch: int | None = None
    devices: int | None = None
    mesh: str | None = None
    knob: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepSubject:
    """A strategy of a step file; ``kept`` is the compile of its plan or run."""

    name: str
    strategy: StepStrategy
    hardware: HardwareSpec
    budget_bytes: int
    request: StepRequest | None
    """None: the file is not named, so that nothing can be compiled."""
    kept: StepCompiled | None = None

    def footprint(self, toolchain: Toolchain | None) -> Footprint:
        """The footprint under a toolchain; None: of the kept compile where there is one, else under this Python's."""
        compiled, allowance = self._compiled(toolchain)
        return Footprint.of(compiled, subject=self.name, strategy=self.strategy.argument, allowance_bytes=allowance)

    def _compiled(self, toolchain: Toolchain | None) -> tuple[Compiled, int]:
        if toolchain is None and self.kept is not None:
            kept = StepCandidate(self.strategy, self.hardware, self.budget_bytes).with_compiled(self.kept)
            return self.kept, kept.allowance_bytes
        if self.request is None:
            raise BadInputError(f"{self.name} is to be compiled, and a plan runs no file: name its step file with --step")
        request = self.request
        bench = StepBench(request, StepFile.of(Path(request.step)), toolchain or probe(), PoolLimits(jobs=1))
        (found,) = bench.compile([self.strategy], Declared.of(request))
        assert found.compiled is not None, "a compile was asked for"
        return found.compiled, found.allowance_bytes


@dataclass(frozen=True)
class PlanSubject:
    """The winner of a search over lcplan's own step."""

    run: Run
    name: str
    hardware: HardwareSpec

    @property
    def budget_bytes(self) -> int:
        """The budget that the search had; on other hardware its usable memory [bytes]."""
        same = self.hardware.name == self.run.request.hardware.name
        return self.run.request.budget_bytes if same else self.hardware.usable_bytes

    def footprint(self, toolchain: Toolchain | None) -> Footprint:
        """The footprint under a toolchain; None: of the kept compile where there is one, else under this Python's."""
        winner = self.run.chosen
        if winner is None:
            raise BadInputError(f"{self.name}: nothing was found in this run; there is no step to compile")
        request = self.run.request.model_copy(update={"hardware": self.hardware, "budget_bytes": self.budget_bytes})
        kept = winner.target_compile if self.hardware == self.run.request.hardware else None
        if toolchain is not None or kept is None:
            bench = Bench(request, toolchain or probe(), PoolLimits(jobs=1))
            winner = next(iter(bench.compile([price(request, winner.strategy)])))
            kept = winner.compiled
        assert kept is not None, "a compile was asked for"
        allowance = int(winner.estimate["allowance_bytes"])
        strategy = winner.strategy.model_dump(mode="json")
        return Footprint.of(kept, subject=self.name, strategy=strategy, allowance_bytes=allowance)


Subject = StepSubject | PlanSubject


def read_subject(asked: Asked) -> Subject:
    """The subject that the options name.

    Raises
    ------
    BadInputError
        No such file, a file of another kind, several strategies of a step file, or unknown hardware.
    """
    path = asked.subject
    if not path.exists():
        raise BadInputError(f"{path}: no such file or folder; give a plan, the folder of a search, or a step file")
    if path.suffix == ".py":
        return _of_file(asked)
    document = _own_document(path)
    if document is not None:
        return _of_own_run(asked, document)
    run = read_run(path)
    return PlanSubject(run, path.name, _hardware(asked, run.request.hardware))


def _hardware(asked: Asked, of_plan: HardwareSpec) -> HardwareSpec:
    from lcplan import catalog

    return catalog.hardware(asked.hw) if asked.hw is not None and asked.hw != of_plan.name else of_plan


def _own_document(path: Path) -> StepPlan | None:
    """The plan of a step of one's own; None where the path is one of lcplan's own step."""
    if path.is_dir():
        result = path / "result.json"
        data = read_json(result) if result.exists() else None
        if not isinstance(data, dict) or data.get("kind") != KIND:
            return None
        if not (path / "plan.yaml").exists():
            raise BadInputError(f"{path}: nothing fitted in this search; there is no plan to compare with a budget")
        return StepPlan.load(path / "plan.yaml")
    if path.suffix in (".yaml", ".yml"):
        data = read_yaml(path)
        return StepPlan.load(path) if isinstance(data, dict) and data.get("kind") == KIND else None
    return None


def _of_own_run(asked: Asked, plan: StepPlan) -> StepSubject:
    hardware = _hardware(asked, plan.hardware)
    same = hardware == plan.hardware
    request = None
    if asked.step is not None:
        options = StepOptions(
            step=asked.step,
            hw=asked.hw or plan.hardware.name,
            devices=plan.strategy.devices,
            seq=asked.seq or plan.workload.get("seq_len"),
            global_batch=asked.global_batch or plan.workload.get("global_batch"),
        )
        request = build_step_request(options).model_copy(update={"hardware": hardware})
    kept = plan.compiled if same and asked.step is None else None
    budget = plan.budget_bytes if same else hardware.usable_bytes
    return StepSubject(asked.subject.name, plan.strategy, hardware, budget, request, kept)


def _of_file(asked: Asked) -> StepSubject:
    if asked.hw is None:
        raise BadInputError(f"{asked.subject}: a step file needs --hw")
    options = StepOptions(
        step=str(asked.subject),
        hw=asked.hw,
        devices=asked.devices,
        seq=asked.seq,
        global_batch=asked.global_batch,
        mesh=asked.mesh,
        knob=asked.knob,
    )
    request = build_step_request(options)
    if asked.devices is None and len(request.mesh) == len(request.space.axes):
        request = _sized(request)
    strategy = _only(request)
    return StepSubject(asked.subject.name, strategy, request.hardware, request.budget_bytes, request)


def _sized(request: StepRequest) -> StepRequest:
    """Return the request with as many devices as the mesh takes, where it names every axis."""
    sizes = [one.fixed for one in request.mesh.values()]
    count = 1
    for size in sizes:
        count *= size or 0
    return request.model_copy(update={"devices": count}) if 0 < count <= request.hardware.devices else request


def _only(request: StepRequest) -> StepStrategy:
    """The one strategy that the options leave."""
    points = enumerate_points(request, Declared.of(request))
    if len(points.allowed) == 1:
        return points.allowed[0]
    if not points.allowed:
        raise BadInputError(next(iter(points.examples.values()), f"{request.step}: no strategy is left"))
    open_axes = [axis for axis in request.space.axes if axis not in request.mesh]
    open_knobs = [name for name, values in request.space.knobs.items() if len(request.knobs.get(name, values)) > 1]
    wanted = [*(f"--mesh {axis}=N" for axis in open_axes), *(f"--knob {name}=VALUE" for name in open_knobs)]
    raise BadInputError(
        f"{request.step}: {len(points.allowed)} strategies are left, and one is compared; give {', '.join(wanted) or '--mesh'}"
    )


def footprints(subject: Subject, toolchains: Sequence[Toolchain]) -> list[Footprint]:
    """One footprint for each toolchain; without toolchains that of the kept compile, or of this Python's."""
    found: list[Footprint] = [subject.footprint(one) for one in toolchains] or [subject.footprint(None)]
    return found


def judged(footprint: Footprint, budget_bytes: int) -> dict[str, Any]:
    """Return a footprint's document with its verdict."""
    fits = footprint.need_bytes <= budget_bytes
    shown = footprint.model_dump(mode="json", exclude={"schema_version"})
    return shown | {"fits": fits, "free_bytes": budget_bytes - footprint.need_bytes}
