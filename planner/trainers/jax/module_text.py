"""Text and values that all modules of the target ``jax`` share: environment, mesh, kernel, launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from lcplan.evidence.plan import Plan
from lcplan.formats.text import docstring_text, python_text
from lcplan.strategy.attention_kernel import attention_kernel, shortest_chunk
from planner.trainers import Job, Translation
from planner.trainers.common.export_files import Launch, Written, title
from planner.trainers.common.jax_environment import jax_environment, launch_per_device, one_process_per_device

PLAN_FILE = "plan.yaml"

ENVIRONMENT = """import os

ENVIRONMENT = {environment}
for _name, _value in ENVIRONMENT.items():  # XLA reads these when jax is imported, so they come first
    os.environ.setdefault(_name, _value)
"""

MAKE_MESH = '''def make_mesh(devices=None):
    """The mesh over all devices, outermost axis first: the last takes neighbouring devices."""
    devices = jax.devices() if devices is None else devices
    needed = int(np.prod(SHAPE))
    if len(devices) != needed:
        raise SystemExit(f"the plan takes {needed} devices; jax sees {len(devices)}")
    if devices[0].platform == "tpu":  # lay the axes onto the torus
        return Mesh(mesh_utils.create_device_mesh(SHAPE, devices, allow_split_physical_axes=True), AXES)
    return Mesh(np.array(devices).reshape(SHAPE), AXES)
'''


@dataclass(frozen=True)
class ModuleText:
    """One exported module: its file and text, of which ``values`` fill the fields."""

    file: str
    template: str
    values: Mapping[str, object]


def shared_values(translation: Translation, plan: Plan, environment: dict[str, str]) -> dict[str, object]:
    """Return the values that every module has: title, environment, processes, mesh, kernel."""
    job = translation.job
    return {
        "title": docstring_text(title(translation)),
        "plan_file": PLAN_FILE,
        "environment_text": ENVIRONMENT.format(environment=_dict(environment)),
        "make_mesh": MAKE_MESH,
        "processes": plan.launch.processes if job.hardware.kind != "cpu" else 1,
        "axes": job.strategy.mesh_axes,
        "shape": job.strategy.mesh_shape,
        "kernel": kernel(job),
    }


def environment_of(translation: Translation, plan: Plan) -> dict[str, str]:
    """Return the variables of the launch; on a host also the number of its devices."""
    environment, job = jax_environment(translation, plan), translation.job
    if job.hardware.kind != "cpu":
        return environment
    count = f"--xla_force_host_platform_device_count={job.strategy.devices}"
    return {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": count} | environment


def written(translation: Translation, plan: Plan, module: ModuleText) -> Written:
    """Return the module, the plan next to it, and the launch."""
    job, environment = translation.job, environment_of(translation, plan)
    text = module.template.format(file=module.file, **shared_values(translation, plan, environment), **module.values)
    changed = plan.model_copy(update={"strategy": job.strategy, "environment": environment})
    files = {module.file: text, PLAN_FILE: yaml.safe_dump(changed.model_dump(mode="json"), sort_keys=False, width=120)}
    if one_process_per_device(job):
        launch = launch_per_device(job, ("python3", module.file), environment)
    else:
        per = "process" if plan.launch.processes > 1 else "host"
        launch = Launch(("python3", module.file), environment, per=per)
    return Written(files, launch, main_file=module.file)


def kernel(job: Job) -> str:
    """The attention kernel that lcplan compiles the program with on this hardware."""
    gpu = job.hardware.device.gpu
    return attention_kernel(
        job.model,
        kind=job.hardware.kind,
        precision=job.workload.precision,
        shortest_chunk=shortest_chunk(job.workload.seq_len, job.strategy.mesh.context),
        capability=None if gpu is None else gpu.compute_capability,
        fused=job.hardware.fused_attention,
    )


def _dict(values: dict[str, str]) -> str:
    if not values:
        return "{}"
    return "\n".join(["{", *(f"    {python_text(name)}: {python_text(value)}," for name, value in values.items()), "}"])
