"""The target of a compile: which compiler, which absent devices, which options. Plain values; needs no jax."""

from __future__ import annotations

from typing import Literal

from lcplan.formats.errors import BadInputError
from lcplan.formats.frozen import Frozen
from lcplan.spec.hardware import GpuFacts, HardwareSpec
from lcplan.spec.segments import domains_of, segment_of
from lcplan.spec.torus import host_bounds, sub_torus
from lcplan.strategy import Strategy
from planner.measure.targets.backends import compiler_options
from planner.measure.targets.compile_option import Verdict, version_of
from planner.measure.targets.toolchain import Toolchain

MAX_THREADS_PER_BLOCK = 1024
"""CUDA C++ Programming Guide, technical specifications by compute capability: the same from 3.0 on, as is the next. OpenXLA's
descriptions of AMD GPUs have it too."""
GRID_LIMITS = (2**31 - 1, 65535, 65535)
DEFAULT_CUDNN: tuple[int, int, int] = (9, 8, 0)
"""A placeholder for a toolchain without cuDNN, where no cuDNN kernel is compiled."""
CUDA_RUNTIME = {"cuda12": (12, 9, 0), "cuda13": (13, 0, 0)}
ROCM_RUNTIME = {"rocm7": (7, 0, 0), "rocm10": (10, 0, 0)}
MIOPEN: tuple[int, int, int] = (3, 5, 0)
"""A placeholder, as no kernel of MIOpen is compiled: a train step has no convolution."""
Platform = Literal["cuda", "rocm", "tpu", "cpu"]
Compiler = Literal["gpu", "rocm", "tpu", "cpu"]


class Target(Frozen):
    """Everything that a worker needs to know of the machine that it compiles for."""

    name: str
    rung: Literal["compiled:host", "compiled:target"]
    platform: Platform
    devices: int
    segment: int = 0
    """Devices of each domain (partition, slice) of a job on several; 0: the job is in one."""
    topology: str | None = None
    target_config: str | None = None
    topology_options: dict[str, str | int | bool | tuple[int, ...]] = {}
    compiler_options: dict[str, str | bool] = {}
    at_hand: bool = False
    """The program runs on this machine's own devices; else it is compiled for absent ones."""
    note: str | None = None
    """Why this is not the hardware's own compiler."""

    @property
    def kind(self) -> Literal["gpu", "tpu", "cpu"]:
        """The hardware's kind that the program is compiled for."""
        compiler = self.compiler
        return "gpu" if compiler == "rocm" else compiler

    @property
    def compiler(self) -> Compiler:
        """The compiler, as ``HardwareSpec.compiler`` names it."""
        return "gpu" if self.platform == "cuda" else self.platform

    @property
    def environment(self) -> dict[str, str]:
        """Variables of the worker process; workers with the same variables take each other's jobs.

        The plugin for AMD must be named before jax looks for plugins, so its workers are their own: they have no libtpu.
        """
        variables: dict[str, str] = {"JAX_PLATFORMS": self.platform if self.at_hand else "cpu"}
        if self.platform != "rocm":
            variables |= {"TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1", "TPU_LOG_DIR": "disabled"}
        if self.platform == "cpu":
            variables["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={self.devices}"
        return variables


def one_device(target: Target) -> Target:
    """One device of the target's kind that is at hand, for one rank's program."""
    name = f"one {target.name.split(' ')[0]}"
    return target.model_copy(update={"name": name, "devices": 1, "at_hand": True})


def target_verdict(hardware: HardwareSpec, toolchain: Toolchain) -> Verdict:
    """Whether the hardware's own compiler can be used: True, or why host devices replace it."""
    verdict = toolchain.targets.get(hardware.compiler, "not known to this toolchain")
    if verdict is not True:
        return verdict
    if hardware.kind == "gpu" and hardware.device.gpu is None:
        return f"hardware {hardware.name} has no device.gpu facts; add them to its spec"
    if hardware.kind == "tpu" and (hardware.topology_name is None or hardware.torus is None):
        return f"hardware {hardware.name} has no topology_name or torus; add them to its spec"
    return True


def target_for(strategy: Strategy, hardware: HardwareSpec, *, toolchain: Toolchain) -> Target:
    """The target of one strategy: as many of the hardware's devices as its mesh takes.

    Where the hardware's compiler cannot be used, host devices replace it (evidence ``compiled:host``) and ``note`` is the
    reason. For a CPU the host compiler is the target's own.

    Raises
    ------
    BadInputError
        The devices are no block of the TPU's torus.
    """
    verdict = target_verdict(hardware, toolchain)
    if hardware.kind == "cpu" or verdict is not True:
        return Target(
            name=f"cpu x{strategy.devices}",
            rung="compiled:target" if hardware.kind == "cpu" else "compiled:host",
            platform="cpu",
            devices=strategy.devices,
            note=None if hardware.kind == "cpu" else f"compiled for host devices: {verdict}",
        )
    build = _gpu_target if hardware.kind == "gpu" else _tpu_target
    return build(strategy, hardware, toolchain=toolchain)


def gpu_topology(devices: int, hardware: HardwareSpec, segment: int = 0) -> str:
    """``PARTITIONSxHOSTSxGPUS``: one NVLink domain is a partition, of which the job has ``segment`` devices on as few hosts.

    >>> from lcplan.catalog import hardware
    >>> racks = hardware("gb200-nvl72x2")
    >>> [gpu_topology(n, racks) for n in (2, 32, 72, 144, 128)], gpu_topology(64, racks, segment=32)
    (['1x1x2', '1x8x4', '1x18x4', '2x18x4', '2x16x4'], '2x8x4')
    """
    partitions, rest = divmod(devices, segment_of(hardware, devices, segment))
    if rest:  # no rule of a single strategy's compile asks for more: the fewest even parts
        partitions = _even_parts(devices, hardware.domain_size)
    inside = devices // partitions
    hosts = _even_parts(inside, hardware.node_size)
    return f"{partitions}x{hosts}x{inside // hosts}"


def _segment(strategy: Strategy, hardware: HardwareSpec) -> int:
    """Devices of each domain where the job is on several, else 0."""
    several = domains_of(hardware, strategy.devices, strategy.segment) > 1
    return segment_of(hardware, strategy.devices, strategy.segment) if several else 0


def _even_parts(whole: int, largest: int) -> int:
    """The fewest equal parts of at most ``largest``."""
    return next(parts for parts in range(-(-whole // largest), whole + 1) if whole % parts == 0)


def gpu_target_config(hardware: HardwareSpec, *, dnn: tuple[int, ...], runtime: tuple[int, ...]) -> str:
    """A GpuTargetConfigProto in text form; ``dnn`` is the version of cuDNN or MIOpen, ``runtime`` that of CUDA or HIP.

    Only fields that every jax from 0.9.2 to 0.12 parses: XLA's own description files carry more and are refused by older ones.
    """
    gpu = hardware.device.gpu
    assert gpu is not None, "target_verdict looks first"
    info = {
        "threads_per_block_limit": MAX_THREADS_PER_BLOCK,
        "threads_per_warp": gpu.threads_per_warp,
        "shared_memory_per_block": gpu.shared_memory_per_block_bytes,
        "shared_memory_per_core": gpu.shared_memory_per_core_bytes,
        "threads_per_core_limit": gpu.threads_per_core_limit,
        "core_count": gpu.core_count,
        "fpus_per_core": gpu.fpus_per_core,
        "block_dim_limit_x": GRID_LIMITS[0],
        "block_dim_limit_y": GRID_LIMITS[1],
        "block_dim_limit_z": GRID_LIMITS[2],
        "memory_bandwidth": int(hardware.device.hbm_bytes_per_s.value),
        "l2_cache_size": gpu.l2_cache_bytes,
        "clock_rate_ghz": gpu.clock_rate_ghz,
        "device_memory_size": int(hardware.device.hbm_bytes.value),
        "shared_memory_per_block_optin": gpu.shared_memory_per_block_optin_bytes,
        "registers_per_core_limit": gpu.registers_per_core_limit,
        "registers_per_block_limit": gpu.registers_per_block_limit,
    }
    lines = [f"  {key}: {value}" for key, value in info.items()]
    lines.append(f"  {_instruction_set(gpu)}")
    platform = "CUDA" if gpu.vendor == "nvidia" else "ROCM"
    return "\n".join(
        [
            "gpu_device_info {",
            *lines,
            "}",
            f'platform_name: "{platform}"',
            f"dnn_version_info {{ {_version(dnn)} }}",
            f"runtime_version {{ {_version(runtime)} }}",
            f"device_description_str: {_quoted(gpu.description)}",
        ]
    )


def _instruction_set(gpu: GpuFacts) -> str:
    if gpu.gcn_arch is not None:
        return f"rocm_compute_capability {{ gcn_arch_name: {_quoted(gpu.gcn_arch)} }}"
    assert gpu.compute_capability is not None, "GpuFacts has the one or the other"
    return f"cuda_compute_capability {{ major: {gpu.compute_capability[0]} minor: {gpu.compute_capability[1]} }}"


def _quoted(text: str) -> str:
    """A string of protobuf's text format."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _version(version: tuple[int, ...]) -> str:
    major, minor, patch = (*version, 0, 0, 0)[:3]
    return f"major: {major} minor: {minor} patch: {patch}"


def _gpu_target(strategy: Strategy, hardware: HardwareSpec, *, toolchain: Toolchain) -> Target:
    topology = gpu_topology(strategy.devices, hardware, strategy.segment)
    cudnn = version_of(toolchain.versions["cudnn"]) if "cudnn" in toolchain.versions else DEFAULT_CUDNN
    amd = hardware.vendor == "amd"
    dnn = MIOPEN if amd else cudnn
    runtime = ROCM_RUNTIME[toolchain.rocm or "rocm7"] if amd else CUDA_RUNTIME[toolchain.cuda or "cuda12"]
    return Target(
        name=f"{hardware.device.name} {topology}",
        rung="compiled:target",
        platform="rocm" if amd else "cuda",
        devices=strategy.devices,
        segment=_segment(strategy, hardware),
        topology=topology,
        target_config=gpu_target_config(hardware, dnn=dnn, runtime=runtime),
        compiler_options=compiler_options(strategy, hardware, jax=toolchain.jax or "0"),
    )


def _tpu_target(strategy: Strategy, hardware: HardwareSpec, *, toolchain: Toolchain) -> Target:
    assert hardware.topology_name is not None, "target_verdict looks first"
    assert hardware.torus is not None, "target_verdict looks first"
    generation = hardware.topology_name.split(":")[0]
    slices = domains_of(hardware, strategy.devices, strategy.segment)
    chips, rest = divmod(strategy.devices, slices * hardware.devices_per_chip)
    block = None if rest else sub_torus(chips, hardware.torus)
    if block is None:
        raise BadInputError(
            f"{strategy.devices} devices are no block of the {'x'.join(map(str, hardware.torus))} torus of {hardware.name}"
            f" ({hardware.devices_per_chip} devices a chip); use a device count whose factors fit its sides"
        )
    options = dict(hardware.topology_options)
    if block != hardware.torus or "chips_per_host_bounds" in options:
        options["chips_per_host_bounds"] = host_bounds(block)
    if slices > 1:
        options["num_slices"] = slices
    name = f"{generation}:{'x'.join(map(str, block))}"
    shown = f"tpu {name}" + (f" x{slices}" if slices > 1 else "")
    return Target(
        name=shown,
        rung="compiled:target",
        platform="tpu",
        devices=strategy.devices,
        segment=_segment(strategy, hardware),
        topology=name,
        topology_options=options,
        compiler_options=compiler_options(strategy, hardware, jax=toolchain.jax or "0"),
    )
