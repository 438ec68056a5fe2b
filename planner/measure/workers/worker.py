"""The worker: takes jobs as JSON lines on stdin, answers one JSON line each on its private stdout.

Imports jax, and the program, on the first job. The pool notices from outside when the process dies (an abort, a kill).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from lcplan.formats.scratch import scratch_folder
from planner.measure.hlo.executable import read_executable
from planner.measure.hlo.groups import MeshView
from planner.measure.hlo.libtpu_memory import dump_options, temporaries
from planner.measure.rocm.differences import differences
from planner.measure.rocm.plugin import open_plugin
from planner.measure.targets.target import Target
from planner.measure.workers import gang
from planner.measure.workers.compiled_memory import memory_of
from planner.measure.workers.executable_facts import facts_of
from planner.measure.workers.executables import kept_in
from planner.measure.workers.job import PartJob, WorkerJob
from planner.measure.workers.process import FailureKind

MAX_ERROR = 600
"""Characters of an error that are kept."""


def serve(requests: Iterable[str], results: int) -> None:
    """Answer each line of ``requests`` on the file descriptor ``results``; with the others where this is one of several."""

    def answer(line: str) -> None:
        if line.strip():
            _write(results, (json.dumps(_answer(line)) + "\n").encode())

    team = gang.here()
    if team is None:
        for line in requests:
            answer(line)
        return
    gang.join(team)
    gang.together(requests, answer)


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _answer(line: str) -> dict[str, Any]:
    request = json.loads(line)
    try:
        return {"id": request["id"], "result": _result(request)}
    except Exception as error:  # a failed job is data
        return {"id": request["id"], "error": words_of(error), "kind": kind_of(error, request)}
    finally:
        import jax

        jax.clear_caches()


def _result(request: dict[str, Any]) -> dict[str, Any]:
    """Run the request's job, of whichever kind it is."""
    text = bool(request.get("text"))
    runs: dict[str, Callable[[Any], dict[str, Any]]] = {
        "probe": _probe,
        "part": lambda given: _run_part(PartJob.model_validate(given)),
        "step": lambda _given: _run_own(request),
        "trainer": _run_trainer,
        "look": lambda given: _look(WorkerJob.model_validate(given), text=text),
    }
    for name, run in runs.items():
        if name in request:
            return run(request[name])
    job = WorkerJob.model_validate(request["job"])
    with kept_in(request.get("executables"), anew=job.purpose == "compile"):
        return _run(job)


def _probe(given: Any) -> dict[str, Any]:
    result: dict[str, Any] = import_module("planner.measure.timing.probes").run(given)
    return result


def kind_of(error: BaseException, request: Mapping[str, Any]) -> FailureKind:
    """Whether the job or this machine is to blame: other processes on a device decide how much of its memory a timing gets."""
    timed = request.get("job", {}).get("purpose") in ("time", "slice")
    full = timed and "RESOURCE_EXHAUSTED" in str(error)
    return "environment" if full or isinstance(error, (ImportError, MemoryError, OSError)) else "error"


def words_of(error: BaseException) -> str:
    """An exception as one short text: its type where that is informative, its first lines."""
    text = " ".join(str(error).split("\n\n")[0].split())
    kind = type(error).__name__
    plain = kind in ("JaxRuntimeError", "XlaRuntimeError", "StepFaultError")  # these types add nothing to the text
    shown = text if text and plain else f"{kind}: {text}" if text else kind
    return shown if len(shown) <= MAX_ERROR else shown[: MAX_ERROR - 3] + "..."


def _run(job: WorkerJob) -> dict[str, Any]:
    if job.purpose == "slice":
        return import_module("planner.measure.timing.time_slice").time_slice(job)
    step = _step(job)
    if job.purpose == "compile":
        return _compile(job, step)
    time_step, options = import_module("planner.measure.timing.time_full").time_step, dict(job.target.compiler_options)
    if hasattr(step, "timed"):  # not every program is a step (state, batch) -> (state, metrics)
        return time_step(step.timed(options))
    return time_step(step, options=options)


def _run_part(job: PartJob) -> dict[str, Any]:
    from planner.measure.targets.device_mesh import build_mesh

    build = import_module("strategies.parts").build_part
    built = build(job.part, job.strategy, build_mesh(job.target, job.strategy), kernel=job.kernel)
    if job.purpose == "compile":
        return _compile(job, built)
    return import_module("planner.measure.timing.time_part").time_part(built, options=dict(job.target.compiler_options))


def _run_own(request: dict[str, Any]) -> dict[str, Any]:
    own = import_module("planner.measure.step_file.run")
    job = own.WorkerStepJob.model_validate(request["step"])
    text, inside = bool(request.get("text")), bool(request.get("inside"))
    result: dict[str, Any] = own.compile_step(job, text=text, inside=inside)
    return result


def _run_trainer(job: dict[str, Any]) -> dict[str, Any]:
    from planner.measure.trainer_step.job import WorkerTrainerJob

    asked = WorkerTrainerJob.model_validate(job)
    run = import_module(f"planner.measure.trainer_step.{asked.trainer}")
    result: dict[str, Any] = run.compile_step(asked)
    return result


def _look(job: WorkerJob, *, text: bool) -> dict[str, Any]:
    """Compile one of lcplan's own programs and read all facts of its executable."""
    step = _step(job)
    start = time.perf_counter()
    view = MeshView(job.strategy.mesh_axes, job.strategy.mesh_shape, segment=job.target.segment)
    with scratch_folder() as folder:
        lowered = step.jitted.lower(*step.abstract_arguments())
        compiled = lowered.compile(compiler_options=dict(job.target.compiler_options) | dump_options(str(folder)))
        facts = facts_of(compiled, job.target, view, dumps=folder, inside=True)
    if text:
        facts["text"] = compiled.as_text()
    return {"compile_s": time.perf_counter() - start, **facts}


def _step(job: WorkerJob) -> Any:
    from planner.measure.targets.device_mesh import build_mesh

    program = import_module(job.program)
    spec = program.StepSpec(model=job.model, workload=job.workload, strategy=job.strategy, kernel=job.kernel)
    return program.build_step(spec, build_mesh(job.target, job.strategy))


def _compile(job: WorkerJob | PartJob, step: Any) -> dict[str, Any]:
    """Lower, compile, and read memory and text of the executable."""
    start = time.perf_counter()
    lowered = step.jitted.lower(*step.abstract_arguments())
    compiled, exact_temp = _compiled(lowered, job.target)
    seconds = time.perf_counter() - start
    mesh = MeshView(job.strategy.mesh_axes, job.strategy.mesh_shape, segment=job.target.segment)
    text = compiled.as_text()
    facts = read_executable(text, mesh=mesh, kind=job.target.compiler).model_dump(mode="json")
    if job.target.platform == "rocm":
        facts["warnings"] += differences(text, replaced=open_plugin())
    return {"compile_s": seconds, **memory_of(compiled, exact_temp), **facts}


def _compiled(lowered: Any, target: Target) -> tuple[Any, int | None]:
    """The executable; and its temporaries in bytes, where ``memory_analysis()`` has them wrong."""
    options = dict(target.compiler_options)
    if target.platform != "tpu":
        return lowered.compile(compiler_options=options or None), None
    with scratch_folder() as folder:
        compiled = lowered.compile(compiler_options=options | dump_options(str(folder)))
        return compiled, temporaries(folder)
