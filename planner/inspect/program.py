"""Look inside a whole program: a plan's or a step file's executable, under one or several sets of compiler flags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cost_models.executable.schedule import ExecutionTime, execution_time
from lcplan.evidence.execution import Execution, Item, Kernel, StepCompiled
from lcplan.formats.errors import BadInputError, StageFailedError
from lcplan.spec.hardware import HardwareSpec
from planner.fits.subject import PlanSubject, StepSubject, Subject
from planner.inspect.part import Flags
from planner.measure.outcome_rows import compiled_row
from planner.measure.step_file.file import StepFile
from planner.measure.step_file.job import StepJob, StepWork
from planner.measure.targets.target import Target
from planner.measure.targets.toolchain import Toolchain
from planner.measure.work import ProgramWork
from planner.measure.workers.pool import PoolLimits, Task, run_tasks
from planner.workloads.registry import planned


@dataclass(frozen=True)
class KernelSum:
    """Equal kernels of a step by name: their calls, FLOP and traffic."""

    name: str
    kind: str
    calls: int
    flop: float
    bytes: float


@dataclass(frozen=True)
class Looked:
    """One compile of a program with all facts of its executable."""

    flags: Flags
    compiled: StepCompiled
    time: ExecutionTime | None
    devices: int
    text: str = ""

    @property
    def kernels(self) -> tuple[KernelSum, ...]:
        """Kernels by name, the ones with the most traffic first."""
        found = sums(self.compiled.execution) if self.compiled.execution is not None else {}
        return tuple(sorted(found.values(), key=lambda one: -one.bytes))

    def to_json(self) -> dict[str, Any]:
        """Return the document of one compile."""
        time = self.time
        return {
            "flags": dict(self.flags),
            "compiled": self.compiled.model_dump(mode="json", exclude={"execution", "programs", "inside"}),
            "step_s": time.step_s if time is not None else None,
            "time_s": dict(time.parts) if time is not None else {},
            "inside": self.compiled.inside.model_dump(mode="json") if self.compiled.inside is not None else None,
            "kernels": [vars(one) for one in self.kernels],
            "collectives": [
                one.to_json() | {"level": "network" if one.message.crosses > 1 else "domain"}
                for one in (time.messages if time is not None else ())
            ],
        }


def sums(execution: Execution) -> dict[str, KernelSum]:
    """Return the kernels of one run by name; of a conditional's branches the first counts."""
    found: dict[str, KernelSum] = {}

    def add(items: Sequence[Item], times: int) -> None:
        for item in items:
            if isinstance(item, Kernel):
                calls = item.calls * times
                old = found.get(item.name, KernelSum(item.name, item.kind, 0, 0.0, 0.0))
                flop, size = old.flop + item.flop * calls, old.bytes + item.bytes * calls
                found[item.name] = KernelSum(item.name, item.kind, old.calls + calls, flop, size)
            elif item.what == "loop":
                add(item.body, times * item.trips)
            elif item.what == "branch" and item.bodies:
                add(item.bodies[0], times)

    add(execution.items, 1)
    return found


def look(subject: Subject, flags: Sequence[Flags], *, toolchain: Toolchain, text: bool) -> tuple[Looked, ...]:
    """Compile the subject's program once for each set of flags.

    Raises
    ------
    BadInputError
        A plan of a step file without its file, or a plan of several programs.
    StageFailedError
        A compile failed.
    """
    made = _of_step if isinstance(subject, StepSubject) else _of_plan
    return tuple(made(subject, own, toolchain, text) for own in flags)  # type: ignore[arg-type]


def _of_step(subject: StepSubject, flags: Flags, toolchain: Toolchain, text: bool) -> Looked:
    if subject.request is None:
        raise BadInputError(f"{subject.name} is to be compiled, and a plan runs no file: name its step file with --step")
    request = subject.request
    file = StepFile.of(Path(request.step))
    job = StepJob(file=file, hardware=subject.hardware, strategy=subject.strategy, workload=request.workload)
    work = StepWork(job, toolchain=toolchain, flags=dict(flags))
    task = Task(work.task.launch, {**work.task.request, "text": text, "inside": True})
    return _looked(task, flags, target=work.target, toolchain=toolchain, hardware=subject.hardware)


def _of_plan(subject: PlanSubject, flags: Flags, toolchain: Toolchain, text: bool) -> Looked:
    request = subject.run.request.model_copy(update={"hardware": subject.hardware})
    winner = subject.run.chosen
    if winner is None:
        raise BadInputError(f"{subject.name}: nothing was found in this run; there is no step to compile")
    jobs = planned(request).programs(request, winner.strategy)
    if len(jobs) > 1:
        names = ", ".join(job.program.name for job in jobs)
        raise BadInputError(f"{subject.name}: its workload has several programs ({names}); inspect takes plans of train steps")
    work = ProgramWork(jobs[0], "compile", toolchain=toolchain)
    target = work.target.model_copy(update={"compiler_options": {**work.target.compiler_options, **dict(flags)}})
    resolved = work.resolved.model_copy(update={"target": target})
    task = Task(work.task.launch, {"id": "look", "look": resolved.model_dump(mode="json"), "text": text})
    return _looked(task, flags, target=target, toolchain=toolchain, hardware=subject.hardware)


def _looked(task: Task, flags: Flags, *, target: Target, toolchain: Toolchain, hardware: HardwareSpec) -> Looked:
    outcome = next(run_tasks([task], PoolLimits(jobs=1)))
    facts = dict(outcome.result or {})
    text = str(facts.pop("text", ""))
    if outcome.result is not None:
        outcome.result.pop("text", None)
    compiled = compiled_row(outcome, target=target, toolchain=toolchain, kind=StepCompiled)
    if compiled.error:
        shown = ",".join(f"{name}={value}" for name, value in flags)
        raise StageFailedError(f"the step could not be compiled{f' with {shown}' if shown else ''}: {compiled.error}")
    execution = compiled.execution
    time = execution_time(execution, hardware, devices=target.devices) if execution is not None else None
    return Looked(flags, compiled, time, target.devices, text)
