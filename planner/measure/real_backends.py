"""Try a toolchain: compile a small ring for each target, and read from the executable which backend it uses."""

from __future__ import annotations

from lcplan.catalog import hardware
from lcplan.evidence.measurement import Compiled
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import Backend, Mesh, Strategy
from planner.measure.jobs import compile_jobs
from planner.measure.targets.backends import GPU_BACKENDS
from planner.measure.targets.compile_option import Verdict
from planner.measure.targets.toolchain import Toolchain
from planner.measure.workers.job import RING, CompileJob
from planner.measure.workers.pool import PoolLimits

SMALL = ModelSpec(name="ring", layers=2, d_model=256, d_ff=256, heads=2, kv_heads=2, head_dim=128, vocab=256)
WORKLOAD = Workload(seq_len=2048, global_batch=1)
LIMITS = PoolLimits(jobs=2, wall_s=120)
TARGETS = {"gpu": "dgx-h100", "rocm": "mi300x", "tpu": "tpu-v5e-8", "cpu": "cpu-host"}
"""A small catalogue entry for each compiler; the result does not depend on the choice."""


def seen(toolchain: Toolchain) -> Toolchain:
    """``toolchain`` with every "yes" tried: a target that fails to compile, or a backend that no permute uses, gets its reason.

    A "no" stays: a package that is not installed, or an option that is known to abort, is not tried.
    """
    jobs = [_job(hardware(TARGETS[kind]), backend) for kind, backend in _claims(toolchain)]
    if not jobs:
        return toolchain
    targets, backends = dict(toolchain.targets), dict(toolchain.backends)
    for job, compiled in compile_jobs(jobs, toolchain=toolchain, pool=LIMITS, store=None):
        backend = job.strategy.backend
        backends[backend] = _verdict(backend, compiled)
        if backend in ("nccl", "rccl", "ici", "host"):
            targets[job.hardware.compiler] = True if compiled.error is None else compiled.error
    return toolchain.model_copy(update={"targets": targets, "backends": backends})


def _claims(toolchain: Toolchain) -> list[tuple[str, Backend]]:
    """(kind, backend) of each pair that the installed packages support."""
    gpu: list[tuple[str, Backend]] = [("gpu", facts.name) for facts in GPU_BACKENDS.values() if facts.name != "rccl"]
    claims: list[tuple[str, Backend]] = [*gpu, ("rocm", "rccl"), ("tpu", "ici"), ("cpu", "host")]
    return [(kind, name) for kind, name in claims if toolchain.targets[kind] is True and toolchain.backends[name] is True]


def _job(spec: HardwareSpec, backend: Backend) -> CompileJob:
    strategy = Strategy(mesh=Mesh(context=4), backend=backend)
    return CompileJob(model=SMALL, hardware=spec, workload=WORKLOAD, strategy=strategy, program=RING)


def _verdict(backend: str, compiled: Compiled) -> Verdict:
    if compiled.error is not None:
        return compiled.error
    got = {use.backend or "?" for use in compiled.collectives if use.op == "collective-permute"}
    return True if got == {backend} else f"jax {compiled.jax} takes the option, but permutes go by {', '.join(sorted(got))}"
