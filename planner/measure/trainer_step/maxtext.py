"""MaxText's own step, compiled for absent devices by its own ``train_compile``, in a worker of its own Python.

Config, model, jit and shardings are MaxText's. lcplan gives it the devices of the target, and its compiler options. Written
for MaxText 0.2.5 (``trainers/pre_train/train_compile.py``), which compiles for absent TPUs only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from lcplan.formats.scratch import scratch_folder
from planner.measure.hlo.executable import read_executable
from planner.measure.hlo.groups import MeshView
from planner.measure.hlo.libtpu_memory import dump_options, temporaries
from planner.measure.targets.device_mesh import devices_of
from planner.measure.targets.target import Target
from planner.measure.trainer_step import gathered_attention
from planner.measure.trainer_step.job import WorkerTrainerJob
from planner.measure.workers.compiled_memory import memory_of

NAME = "lcplan-absent"
"""The target's name in MaxText's map of accelerators."""
TRANSFORMER_ENGINE = "cudnn_flash_te"
CUDNN = "cudnn_flash_jax"
REPLACED = (
    "attention=cudnn_flash_te is compiled as cudnn_flash_jax: Transformer Engine needs a GPU to be traced; both save output and"
    " log-sum-exp"
)
STAND_IN = (
    "attention=cudnn_flash_te over context is compiled as a stand-in (keys and values gathered, jax's cuDNN attention on the"
    " local queries): Transformer Engine needs a GPU to be traced; its own memory is not compared"
)


def compile_step(job: WorkerTrainerJob) -> dict[str, Any]:
    """Facts of the executable of MaxText's step: memory, collectives, kernels.

    Raises
    ------
    Exception
        Whatever MaxText or the compiler raises on the configuration.
    """
    from maxtext.trainers.pre_train import train_compile

    settings, notes, stand_in = _settings(job)
    compiled: list[tuple[Any, Any]] = []
    start = time.perf_counter()
    with scratch_folder() as folder, ExitStack() as patches:
        file = Path(folder) / "run.yml"
        file.write_text(yaml.safe_dump(settings))
        dumps = Path(folder) / "dumps"
        dumps.mkdir()
        patches.enter_context(_absent_devices(train_compile, job))
        patches.enter_context(_kept(train_compile, compiled, job.target, str(dumps)))
        if stand_in:
            patches.enter_context(gathered_attention.in_place())
        train_compile.main(["train_compile", str(file)])
        exact = temporaries(dumps) if job.target.platform == "tpu" else None
    executable, mesh = compiled[0]
    used = {name: size for name, size in mesh.shape.items() if size > 1} or {"data": 1}
    view = MeshView(tuple(used), tuple(used.values()), segment=job.target.segment)
    facts = read_executable(executable.as_text(), mesh=view, kind=job.target.compiler).model_dump(mode="json")
    facts["warnings"] = [*facts["warnings"], *notes]
    return {"compile_s": time.perf_counter() - start, **memory_of(executable, exact), **facts}


def _settings(job: WorkerTrainerJob) -> tuple[dict[str, Any], list[str], bool]:
    """The file's settings for an absent machine, notes on replaced kernels, and whether attention is a stand-in."""
    gpu = job.target.platform != "tpu"
    said = dict(job.settings) | {
        "base_config": "base.yml",
        "run_name": "lcplan",
        "base_output_directory": "",
        "enable_checkpointing": False,
        "dataset_type": "synthetic",
        "log_config": False,
        "compiled_trainstep_file": "",
        "dump_hlo": False,
        "compile_topology": NAME,
        "compile_topology_num_slices": job.slices,
        "hardware": "gpu" if gpu else "tpu",
    }
    if not gpu or said.get("attention", "autoselected") not in (TRANSFORMER_ENGINE, "autoselected"):
        return said, [], False
    if _context(said) > 1:
        return said | {"attention": TRANSFORMER_ENGINE}, [STAND_IN], True
    return said | {"attention": CUDNN}, [REPLACED], False


def _context(said: dict[str, Any]) -> int:
    """Ranks of the context axis; -1, the rest of the devices, counts as more than one."""
    size = 1
    for part in ("ici", "dcn"):
        value = int(said.get(f"{part}_context_parallelism", 1))
        size *= 2 if value < 0 else value
    return size


@contextmanager
def _absent_devices(train_compile: Any, job: WorkerTrainerJob) -> Iterator[None]:
    """Let MaxText's mesh take the target's devices."""
    import jax
    from maxtext.utils import accelerator_to_spec_map, max_utils

    devices = devices_of(job.target)
    platform = "gpu" if job.target.platform != "tpu" else "tpu"
    known = accelerator_to_spec_map.UserFacingNameToSystemCharacteristics
    per_slice = len(devices) // job.slices
    known[NAME] = accelerator_to_spec_map.SystemCharacteristics(platform, None, None, None, per_slice, None)
    own_mesh, own_words, own_devices, own_topology = (
        train_compile.get_topology_mesh,
        max_utils.print_system_information,
        jax.devices,
        train_compile.get_topology_desc,
    )

    def mesh(config: Any) -> Any:
        jax.devices = lambda *_: list(devices)
        try:
            return own_mesh(config)
        finally:
            jax.devices = own_devices
            if platform == "gpu":  # it asks for as many processes at hand as slices
                jax.config.update("mock_num_gpu_processes", 0)

    class Described:
        """A topology with the target's devices."""

        def __init__(self, **_: Any) -> None:
            self.devices = list(devices)

    train_compile.get_topology_mesh, train_compile.get_topology_desc = mesh, Described
    max_utils.print_system_information = lambda: None  # it asks for devices at hand
    try:
        yield
    finally:
        train_compile.get_topology_mesh, train_compile.get_topology_desc = own_mesh, own_topology
        max_utils.print_system_information = own_words
        del known[NAME]


@contextmanager
def _kept(train_compile: Any, compiled: list[tuple[Any, Any]], target: Target, folder: str) -> Iterator[None]:
    """Keep the executable and its mesh; the compiler gets the target's options next to MaxText's."""
    import jax

    own, own_compile = train_compile.jit_and_compile, jax.stages.Lowered.compile
    options = dict(target.compiler_options) | (dump_options(folder) if target.platform == "tpu" else {})

    def with_options(self: Any, compiler_options: Any = None, **rest: Any) -> Any:
        return own_compile(self, compiler_options={**options, **(compiler_options or {})}, **rest)

    def jit_and_compile(*arguments: Any, **named: Any) -> Any:
        jax.stages.Lowered.compile = with_options
        try:
            made = own(*arguments, **named)
        finally:
            jax.stages.Lowered.compile = own_compile
        compiled.append((made, arguments[3] if len(arguments) > 3 else named["mesh"]))
        return made

    train_compile.jit_and_compile = jit_and_compile
    try:
        yield
    finally:
        train_compile.jit_and_compile = own
