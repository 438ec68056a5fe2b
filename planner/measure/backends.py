"""Which collective backend is real under which jax, and the options that switch it on.

The table was tried version by version: a deviceless compile of a ring for an H100 or GB200, and the backend of each
collective read from the executable's text. A flag alone proves nothing: jax 0.10.2 accepts NVSHMEM's and ignores it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from lcplan.hardware import HardwareSpec
from lcplan.strategy import Backend, Strategy

Version = tuple[int, ...]
Verdict = Literal[True] | str
"""True, or why not."""

FIRST_GPU_TARGET: Version = (0, 9, 2)
"""The first jax of those tried whose CUDA plugin compiles without a device; 0.8.2 and before say "topology not implemented"."""


@dataclass(frozen=True)
class Option:
    """One compiler option. ``proto`` is the value for ``compiler_options``, ``flag`` the one for XLA_FLAGS: they differ."""

    name: str
    proto: str | bool
    flag: str
    first: Version
    last: Version | None
    """Last jax in which the option has an effect; None: still there in 0.12."""


@dataclass(frozen=True)
class GpuBackend:
    """A backend of GPU collectives: real from the first option's first jax to its last."""

    name: Backend
    options: tuple[Option, ...]
    needs: str
    """What it needs at run time, which no compile can show."""
    gone: str = ""
    """What a newer jax does with the option."""


_SYMMETRIC = "COLLECTIVES_SYMMETRIC_MEMORY"
GPU_BACKENDS: dict[str, GpuBackend] = {
    "nccl": GpuBackend("nccl", (), "nothing more"),
    "nvshmem": GpuBackend(
        "nvshmem",
        (Option("xla_gpu_experimental_enable_nvshmem", True, "true", (0, 9, 2), (0, 10, 1)),),
        "one device a process, or all participants in one NVLink domain or process",
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
}


def version_of(text: str) -> Version:
    """``0.10.1`` or ``0.12.0.1.dev3`` as numbers.

    >>> version_of("0.12.0.1.dev3")
    (0, 12, 0, 1)
    """
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else (0,)


def _dotted(version: Version) -> str:
    return ".".join(str(part) for part in version)


def backend_verdict(backend: str, jax_version: str) -> Verdict:
    """Whether a GPU backend is real under this jax, by the table; else why not.

    >>> backend_verdict("nvshmem", "0.10.1")
    True
    >>> backend_verdict("symmetric", "0.9.2")
    'jax 0.9.2 has no real symmetric: 0.10.1 and newer have it'
    """
    facts = GPU_BACKENDS[backend]
    if not facts.options:
        return True
    option, version = facts.options[0], version_of(jax_version)
    if version >= option.first and (option.last is None or version <= option.last):
        return True
    until = f"to {_dotted(option.last)}" if option.last else "and newer"
    reach = f"{_dotted(option.first)} {until} have it"
    return f"jax {jax_version} has no real {backend}: {reach}" + (f"; {facts.gone}" if facts.gone else "")


def _active(backend: str, jax_version: str) -> tuple[Option, ...]:
    facts = GPU_BACKENDS.get(backend)
    version = version_of(jax_version)
    known = facts.options if facts else ()
    return tuple(o for o in known if version >= o.first and (o.last is None or version <= o.last))


def compiler_options(strategy: Strategy, hardware: HardwareSpec, *, jax: str) -> dict[str, str | bool]:
    """Options for ``lowered.compile(compiler_options=...)``, proto names; none that this jax does not know."""
    if hardware.kind != "gpu":
        return {}
    return {option.name: option.proto for option in _active(strategy.backend, jax)}


def xla_flags(strategy: Strategy, hardware: HardwareSpec, *, jax: str) -> tuple[str, ...]:
    """The same options as words of XLA_FLAGS, for the plan. An option that this jax lacks would abort the process: left out."""
    if hardware.kind != "gpu":
        return ()
    return tuple(f"--{option.name}={option.flag}" for option in _active(strategy.backend, jax))


def environment(strategy: Strategy, hardware: HardwareSpec, *, jax: str) -> dict[str, str]:
    """What a job of this strategy sets: XLA_FLAGS and, on GPUs, the pool's share of device memory."""
    variables: dict[str, str] = {}
    flags = xla_flags(strategy, hardware, jax=jax)
    if flags:
        variables["XLA_FLAGS"] = " ".join(flags)
    if hardware.kind == "gpu":
        pool = hardware.pool_ratio(strategy.mesh.communicators)  # NCCL's buffers lie outside the pool
        variables["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{pool:.3f}"
    return variables


def devices_per_process(strategy: Strategy, hardware: HardwareSpec) -> int:
    """NVSHMEM wants one device a process; everything else runs one process a host."""
    return 1 if strategy.backend == "nvshmem" else min(hardware.node_size, strategy.devices)
