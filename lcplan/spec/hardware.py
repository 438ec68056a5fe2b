"""HardwareSpec: devices, the domains that fast links join, and the network between them. Every figure has a source."""

from __future__ import annotations

from math import prod
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lcplan.formats.frozen import Frozen
from lcplan.formats.text import Line
from lcplan.spec.device_rates import DeviceRates
from lcplan.spec.figure import Figure, FigureKind, Rated

__all__ = ["Allowance", "DeviceSpec", "Figure", "FigureKind", "GpuFacts", "HardwareSpec", "Link"]


Vendor = Literal["nvidia", "amd"]


class GpuFacts(Frozen):
    """Fields of XLA's GpuTargetConfigProto that a compile needs for a GPU that is not present."""

    compute_capability: tuple[int, int] | None = None
    """NVIDIA: the version of the instruction set."""
    gcn_arch: Line | None = None
    """AMD: ``gcn_arch_name`` of the instruction set and its features, for example ``gfx942:sramecc+:xnack-``."""
    core_count: int
    fpus_per_core: int
    clock_rate_ghz: float
    l2_cache_bytes: int
    shared_memory_per_block_bytes: int
    shared_memory_per_core_bytes: int
    shared_memory_per_block_optin_bytes: int
    threads_per_core_limit: int
    threads_per_warp: int = 32
    registers_per_core_limit: int = 65536
    registers_per_block_limit: int = 65536
    description: Line
    """``device_description_str``, as the driver names the device."""
    source: str

    @model_validator(mode="after")
    def _one_instruction_set(self) -> Self:
        if (self.compute_capability is None) == (self.gcn_arch is None):
            raise ValueError("gpu needs compute_capability (NVIDIA) or gcn_arch (AMD), and not both")
        return self

    @property
    def vendor(self) -> Vendor:
        """Maker of the GPU."""
        return "nvidia" if self.gcn_arch is None else "amd"


class DeviceSpec(Rated):
    """One device as jax counts them."""

    name: Line
    peak_flop_per_s: Figure
    """Dense bf16 matrix peak [FLOP/s]."""
    hbm_bytes: Figure
    """Memory that the runtime reports [bytes]."""
    hbm_bytes_per_s: Figure
    """Memory bandwidth, reads plus writes [bytes/s]."""
    host_oneway_bytes_per_s: Figure | None = None
    """Host link, one direction [bytes/s]."""
    host_memory_bytes: Figure | None = None
    """One device's share of its host's memory [bytes]."""
    power_w: Figure | None = None
    gpu: GpuFacts | None = None
    fused_attention: bool = True
    """Whether jax has a fused attention kernel for devices of this generation."""
    rates: DeviceRates | None = None
    """Measured rates (``lcplan calibrate``); the cost model uses them in place of published ones."""


class Link(Rated):
    """One level of interconnect, as one device sees it."""

    name: Line
    oneway_bytes_per_s: Figure
    """One direction, one device, all its links of this level that one collective can use [bytes/s]."""
    latency_s: Figure
    """One hop of one message [s]."""
    port_oneway_bytes_per_s: Figure | None = None
    """One direction of one port, where devices share ports so that a single device has more than its part [bytes/s]."""
    peer_oneway_bytes_per_s: Figure | None = None
    """One direction between two devices, where each pair has a link of its own and no switch joins them: a group of n devices
    can use n - 1 of them, and a permute one [bytes/s]. None: two devices can use the whole of ``oneway_bytes_per_s``."""
    oversubscription_ratio: Figure | None = None
    """Bandwidth below the leaf switches of a rail divided by that above them, at least 1. None: the network is not blocking."""

    @model_validator(mode="after")
    def _at_least_one(self) -> Self:
        ratio = self.oversubscription_ratio
        if ratio is not None and ratio.value < 1:
            raise ValueError(
                f"oversubscription_ratio={ratio.value:g} is below 1; 2 is half of the bandwidth above the leaf switches"
            )
        return self


class Allowance(Frozen):
    """Memory beyond the executable's own need: runtime and context, communicators, allocator fragmentation."""

    usable_ratio: Figure
    """Share of ``hbm_bytes`` that the job may fill: pool and communicators. The context, driver and runtime have the rest."""
    runtime_bytes: Figure
    """Memory of a run in the pool beyond the executable's own account: autotuned workspaces, fragmentation [bytes]."""
    communicator_bytes: Figure
    """Each communicator (mesh axis group) outside the executable's buffers and outside the pool [bytes]."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not 0 < self.usable_ratio.value <= 1:
            raise ValueError(f"usable_ratio={self.usable_ratio.value:g} is not in (0, 1]")
        return self


class HardwareSpec(Frozen):
    """A machine: ``domains`` domains of ``domain_size`` devices each; ``node_size`` devices share one host."""

    name: Line
    source: str = "user"
    kind: Literal["gpu", "tpu", "cpu"]
    device: DeviceSpec
    domain_size: Annotated[int, Field(gt=0)]
    """Devices joined by NVLink, by one ICI slice, or one host."""
    node_size: Annotated[int, Field(gt=0)]
    domains: Annotated[int, Field(gt=0)] = 1
    segment: Annotated[int, Field(gt=0)] | None = None
    """Devices of each domain that a job on several domains uses; None: whatever whole hosts and the mesh allow."""
    domain_link: Link
    """NVLink, ICI (all links of a chip together; see ``torus``) or the host's memory."""
    network_link: Link | None = None
    """Between domains: InfiniBand, RoCE, EFA, DCN. None: this hardware is one domain."""
    torus: tuple[int, ...] | None = None
    """TPU slice shape in chips, for example (4, 4, 2)."""
    torus_wrap: tuple[bool, ...] | None = None
    """Which torus dims have wraparound links."""
    ici_link: Link | None = None
    """TPU: one single ICI link, one direction."""
    devices_per_chip: Annotated[int, Field(gt=0)] = 1
    topology_name: Line | None = None
    """TPU: libtpu's name of the topology, for example ``v5p:4x4x2``."""
    topology_options: dict[str, str | int | bool | tuple[int, ...]] = Field(default_factory=dict)
    """TPU: further options of get_topology_desc (megacore)."""
    allowance: Allowance
    notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        problems = []
        if self.domain_size % self.node_size:
            problems.append(f"node_size={self.node_size} does not divide domain_size={self.domain_size}")
        if self.segment is not None and (self.segment > self.domain_size or self.segment % self.node_size):
            hosts = f"{self.node_size} devices up to domain_size={self.domain_size}"
            problems.append(f"segment={self.segment} is not whole hosts of {hosts}")
        if self.domains > 1 and self.network_link is None:
            problems.append(f"domains={self.domains} need a network_link between them")
        if self.torus is not None and prod(self.torus) * self.devices_per_chip != self.domain_size:
            shape = "x".join(map(str, self.torus))
            chip = f"devices_per_chip={self.devices_per_chip}"
            problems.append(f"torus={shape} with {chip} is not domain_size={self.domain_size}")
        problems += self._too_fast()
        if self.torus_wrap is not None and len(self.torus_wrap) != len(self.torus or ()):
            problems.append(f"torus_wrap has {len(self.torus_wrap)} dims, torus has {len(self.torus or ())}")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def enlarged_for(self, devices: int) -> str:
        """Return the name of the same hardware with domains enough for ``devices``, as ``--hw`` takes it."""
        base, colon, segment = self.name.partition(":")
        base = base.removesuffix(f"x{self.domains}") if self.domains > 1 else base
        return f"{base}x{-(-devices // (self.segment or self.domain_size))}{colon}{segment}"

    def _too_fast(self) -> list[str]:
        """Rates above the peak or the bandwidth that bounds them. A host's peak is itself measured, on another host."""
        device, rates = self.device, self.device.rates
        if rates is None or self.kind == "cpu":
            return []
        bounds = {
            "gemm_flop_per_s": "peak_flop_per_s",
            "attention_forward_flop_per_s": "peak_flop_per_s",
            "attention_backward_flop_per_s": "peak_flop_per_s",
            "copy_bytes_per_s": "hbm_bytes_per_s",
        }
        pairs = [(name, getattr(rates, name), bound, getattr(device, bound)) for name, bound in bounds.items()]
        return [
            f"device.rates.{name}={rate.value:.4g} is above device.{bound}={most.value:.4g}; correct one of them"
            for name, rate, bound, most in pairs
            if rate is not None and rate.value > most.value
        ]

    @property
    def devices(self) -> int:
        """All devices that a job can use."""
        return (self.segment or self.domain_size) * self.domains

    @property
    def vendor(self) -> Vendor | None:
        """Maker of the GPUs: NVIDIA without ``device.gpu``; None for other kinds."""
        if self.kind != "gpu":
            return None
        return "nvidia" if self.device.gpu is None else self.device.gpu.vendor

    @property
    def fused_attention(self) -> bool:
        """Whether jax has a fused attention kernel for the device, which it lacks for AMD's GPUs."""
        return self.device.fused_attention and self.vendor != "amd"

    @property
    def backends(self) -> tuple[str, ...]:
        """Backends that this kind of hardware can have (a toolchain may have fewer)."""
        if self.vendor == "amd":
            return ("rccl",)
        return {"gpu": ("nccl", "nvshmem", "symmetric"), "tpu": ("ici",), "cpu": ("host",)}[self.kind]

    @property
    def compiler(self) -> Literal["gpu", "rocm", "tpu", "cpu"]:
        """Kind of compile target: XLA for CUDA (``gpu``), for ROCm, for TPU or for hosts."""
        return "rocm" if self.vendor == "amd" else self.kind

    @property
    def usable_bytes(self) -> int:
        """The default budget: capacity of the allocator's pool on one device [bytes]."""
        return int(self.device.hbm_bytes.value * self.allowance.usable_ratio.value)

    def pool_ratio(self, communicators: int) -> float:
        """Share of the memory for the allocator's pool: the value of XLA_PYTHON_CLIENT_MEM_FRACTION at launch.

        ``usable_bytes`` less ``communicators`` (NCCL and others allocate outside the pool), so that a strategy which fits
        the default budget leaves memory for both.
        """
        outside = communicators * self.allowance.communicator_bytes.value
        return max(0.0, self.usable_bytes - outside) / self.device.hbm_bytes.value
