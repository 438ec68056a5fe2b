"""Which collective backend is real under which jax, and the options that switch it on.

The table was tried version by version: a deviceless compile of a ring for an H100 or GB200, and the backend of each
collective read from the executable's text. An accepted flag proves nothing: jax 0.10.2 accepts NVSHMEM's and ignores it.
"""

from __future__ import annotations

from dataclasses import dataclass

from lcplan.spec.hardware import HardwareSpec
from lcplan.strategy import Backend, Strategy
from planner.measure.targets.compile_option import Option, Verdict, Version, active, dotted, version_of
from planner.measure.targets.schedulers import scheduler_options

FIRST_GPU_TARGET: Version = (0, 9, 2)
"""The first tried jax whose CUDA plugin compiles without a device; 0.8.2 and older fail with "topology not implemented"."""


@dataclass(frozen=True)
class GpuBackend:
    """A backend of GPU collectives: real from the first option's first jax to its last."""

    name: Backend
    options: tuple[Option, ...]
    needs: str
    """Its conditions at run time, which no compile can show."""
    gone: str = ""
    """The effect of the option under a newer jax."""

    @property
    def reach(self) -> str:
        """The versions of jax that have the backend, and the effect of its option under a newer one."""
        if not self.options:
            return "every version has it"
        first, last = self.options[0].first, self.options[0].last
        until = f"to {dotted(last)}" if last else "and newer"
        return f"{dotted(first)} {until} have it" + (f"; {self.gone}" if self.gone else "")


_SYMMETRIC = "COLLECTIVES_SYMMETRIC_MEMORY"
GPU_BACKENDS: dict[str, GpuBackend] = {
    "nccl": GpuBackend("nccl", (), "nothing more"),
    "nvshmem": GpuBackend(
        "nvshmem",
        (Option("xla_gpu_experimental_enable_nvshmem", True, "true", (0, 9, 2), (0, 10, 1)),),
        "XLA assigns it to collective-permutes, and to all-reduces below 16 MiB, where each process has one device, or all "
        "participants are in one process or in one NVLink domain; a process with more than one device ends",
        "0.10.2 accepts the flag and ignores it, 0.11 and newer abort on it",
    ),
    "symmetric": GpuBackend(
        "symmetric",
        (
            Option("xla_gpu_collective_permute_mode", _SYMMETRIC, "symmetric", (0, 10, 1), None),
            Option("xla_gpu_all_gather_mode", _SYMMETRIC, "symmetric", (0, 10, 2), None),
        ),
        "all participants in one process; elsewhere XLA falls back to plain NCCL without a word",
    ),
    "rccl": GpuBackend("rccl", (), "AMD GPUs, whose only backend it is; XLA calls it NCCL too"),
}


def backend_verdict(backend: str, jax_version: str) -> Verdict:
    """Whether a GPU backend is real under this jax, by the table; else why not.

    >>> backend_verdict("nvshmem", "0.10.1")
    True
    >>> backend_verdict("symmetric", "0.9.2")
    'jax 0.9.2 has no real symmetric: 0.10.1 and newer have it'
    >>> backend_verdict("symmetric", "0.8.2")
    'jax 0.8.2 was not tried with symmetric, as it compiles only for a GPU that is present: 0.10.1 and newer have it'
    """
    facts, version = GPU_BACKENDS[backend], version_of(jax_version)
    if not facts.options or facts.options[0].known_to(version):
        return True
    if version < FIRST_GPU_TARGET:
        return f"jax {jax_version} was not tried with {backend}, as it compiles only for a GPU that is present: {facts.reach}"
    return f"jax {jax_version} has no real {backend}: {facts.reach}"


def _active(strategy: Strategy, hardware: HardwareSpec, *, jax: str) -> tuple[Option, ...]:
    """Options of the strategy's backend and of its scheduler preset that this jax knows."""
    facts = GPU_BACKENDS.get(strategy.backend) if hardware.kind == "gpu" else None
    return (*active(facts.options if facts else (), jax), *scheduler_options(strategy.scheduler, hardware.kind, jax=jax))


def compiler_options(strategy: Strategy, hardware: HardwareSpec, *, jax: str) -> dict[str, str | bool]:
    """Options for ``lowered.compile(compiler_options=...)``, proto names; an option that this jax does not know is left out."""
    return {option.name: option.proto for option in _active(strategy, hardware, jax=jax)}


def xla_flags(strategy: Strategy, hardware: HardwareSpec, *, jax: str) -> tuple[str, ...]:
    """The same options as words, for the plan. An option that this jax lacks would abort the process: left out."""
    return tuple(option.word for option in _active(strategy, hardware, jax=jax))


def environment(strategy: Strategy, hardware: HardwareSpec, *, jax: str) -> dict[str, str]:
    """The variables that a job of this strategy sets: its flags and, on GPUs, the pool's share of device memory.

    libtpu reads its own flags from LIBTPU_INIT_ARGS; in XLA_FLAGS they would abort the process.
    """
    variables: dict[str, str] = {}
    flags = xla_flags(strategy, hardware, jax=jax)
    if flags:
        variables[flags_variable(hardware)] = " ".join(flags)
    if hardware.kind == "gpu":
        pool = hardware.pool_ratio(strategy.mesh.communicators)  # NCCL's buffers lie outside the pool
        variables["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{pool:.3f}"
    return variables


def flags_variable(hardware: HardwareSpec) -> str:
    """The variable that flags of this hardware's compiler go into."""
    return "LIBTPU_INIT_ARGS" if hardware.kind == "tpu" else "XLA_FLAGS"


def devices_per_process(strategy: Strategy, hardware: HardwareSpec) -> int:
    """Devices per process: 1 with NVSHMEM; otherwise those of a host, one process per host."""
    return 1 if strategy.backend == "nvshmem" else min(hardware.node_size, strategy.devices)
