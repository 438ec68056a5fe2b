"""Build and compile a user's step, in a worker."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from lcplan.formats.scratch import scratch_folder
from planner.measure.hlo.groups import MeshView
from planner.measure.hlo.libtpu_memory import dump_options
from planner.measure.step_file.absent import Asked, answering_for
from planner.measure.step_file.faults import StepFaultError, explain
from planner.measure.step_file.file import StepFile
from planner.measure.step_file.job import WorkerStepJob
from planner.measure.targets.device_mesh import devices_of, mesh_over
from planner.measure.workers.executable_facts import facts_of

OTHER_DEVICES = (
    "the program was compiled for {found}, not for {wanted}: {why}; give every argument of the step as"
    " jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec)), with the mesh that build is given"
)
RETURNS = (
    "build returned {found}; it returns (jitted, abstract_args), (jitted, abstract_args, abstract_kwargs) or a value with"
    " .lower()"
)


def compile_step(job: WorkerStepJob, *, text: bool = False, inside: bool = False) -> dict[str, Any]:
    """Facts of the executable: memory, collectives, kernels, largest buffers, operations.

    ``text`` and ``inside``: its text, and the facts of a closer look (``facts_of``), too.

    Raises
    ------
    StepFaultError
        The user's code failed, or its program is not for the target; with the line and a fix.
    """
    path = Path(job.path)
    if StepFile.of(path, packages=False).digest != job.digest:
        raise StepFaultError(f"{path}: it changed while the search ran; start the search again")
    devices = devices_of(job.target)
    mesh = mesh_over(devices, job.strategy.mesh, torus=job.target.platform == "tpu")
    asked = Asked(path.parent)
    with answering_for(devices, platform=job.target.platform, processes=job.processes, asked=asked), _local(path):
        lowered = _lowered(job, mesh, path)
        start = time.perf_counter()
        with scratch_folder() as folder:
            compiled = _compiled(lowered, job, str(folder), root=path.parent)
            seconds = time.perf_counter() - start
            facts = facts_of(compiled, job.target, _view(compiled, job), dumps=folder, inside=inside)
            if text:
                facts["text"] = compiled.as_text()
    facts["warnings"] = [*facts["warnings"], *asked.notes]
    return {"compile_s": seconds, **facts}


def _lowered(job: WorkerStepJob, mesh: Any, path: Path) -> Any:
    """The user's step as a ``Lowered``; every exception of the user's code is explained."""
    try:
        module = _module(path)
        made = module.build(mesh, job.strategy.argument, dict(job.workload))
        if hasattr(made, "compile"):
            return made
        if hasattr(made, "lower"):
            return made.lower()
        if not (isinstance(made, tuple) and len(made) in (2, 3) and hasattr(made[0], "lower")):
            raise StepFaultError(f"{path.name}: {RETURNS.format(found=_named(made))}")
        jitted, arguments, *rest = made
        return jitted.lower(*arguments, **(rest[0] if rest else {}))
    except StepFaultError:
        raise
    except Exception as error:
        raise explain(error, root=path.parent) from None


def _named(made: Any) -> str:
    """Return the types of the result of ``build``."""
    inner = ", ".join(type(one).__name__ for one in made) if isinstance(made, tuple) else ""
    return f"({inner})" if isinstance(made, tuple) else type(made).__name__


def _module(path: Path) -> ModuleType:
    name = f"lcplan_own_step_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, "a path that ends in .py"
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@contextmanager
def _local(path: Path) -> Iterator[None]:
    """Let the step import modules of its folder; they are read again for the next job."""
    before, folder = set(sys.modules), str(path.parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
        for name in set(sys.modules) - before:
            file = getattr(sys.modules.get(name), "__file__", None)
            if file and Path(file).is_relative_to(path.parent):
                del sys.modules[name]


def _compiled(lowered: Any, job: WorkerStepJob, folder: str, *, root: Path) -> Any:
    try:
        compiled = lowered.compile(compiler_options=dict(job.target.compiler_options) | dump_options(folder))
    except Exception as error:
        raise explain(error, root=root) from None
    found = _devices(compiled)
    wanted = job.strategy.devices
    if found and ({device.platform for device in found} != _platforms(job) or len(found) != wanted):
        shown = f"{len(found)} {next(iter(found)).platform} device{'s' * (len(found) > 1)}"
        absent = {device.platform for device in found} == _platforms(job)
        why = "its arguments are on a part of the mesh" if absent else "no argument is on the mesh"
        raise StepFaultError(OTHER_DEVICES.format(found=shown, wanted=f"{wanted} of {job.target.name.split(' ')[0]}", why=why))
    return compiled


def _platforms(job: WorkerStepJob) -> set[str]:
    return {device.platform for device in devices_of(job.target)}


def _devices(compiled: Any) -> set[Any]:
    """The devices of an executable, from its arguments and results."""
    import jax

    shardings = jax.tree.leaves((compiled.input_shardings, compiled.output_shardings))
    return {device for one in shardings if hasattr(one, "device_set") for device in one.device_set}


def _view(compiled: Any, job: WorkerStepJob) -> MeshView:
    """The mesh that the program has, which a step may have made itself: that of its arguments."""
    import jax

    for one in jax.tree.leaves((compiled.input_shardings, compiled.output_shardings)):
        mesh = getattr(one, "mesh", None)
        if mesh is not None and getattr(mesh, "size", 1) == job.strategy.devices and not getattr(mesh, "empty", False):
            return MeshView(tuple(mesh.axis_names), tuple(mesh.devices.shape), segment=job.target.segment)
    return MeshView(tuple(job.strategy.mesh), tuple(job.strategy.mesh.values()), segment=job.target.segment)
