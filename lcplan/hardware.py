"""HardwareSpec: devices, the domains that fast links join, and the network between them. Every figure has a source."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from lcplan.frozen import Frozen

FigureKind = Literal["datasheet", "measured", "fitted"]


class Figure(Frozen):
    """A number with where it comes from. The field that holds it names its unit."""

    value: Annotated[float, Field(ge=0)]
    source: Annotated[str, Field(min_length=3)]
    kind: FigureKind


class GpuFacts(Frozen):
    """What XLA's GpuTargetConfigProto needs to compile for a GPU that is not there."""

    compute_capability: tuple[int, int]
    core_count: int
    fpus_per_core: int
    clock_rate_ghz: float
    l2_cache_bytes: int
    shared_memory_per_block_bytes: int
    shared_memory_per_core_bytes: int
    shared_memory_per_block_optin_bytes: int
    threads_per_core_limit: int
    registers_per_core_limit: int = 65536
    registers_per_block_limit: int = 65536
    description: str
    """``device_description_str``, as the driver names the device."""
    source: str


class DeviceSpec(Frozen):
    """One device as jax counts them."""

    name: str
    peak_flop_per_s: Figure
    """Dense bf16 matrix peak [FLOP/s]."""
    hbm_bytes: Figure
    """Memory that the runtime reports [bytes]."""
    hbm_bytes_per_s: Figure
    """Memory bandwidth, reads plus writes [bytes/s]."""
    host_oneway_bytes_per_s: Figure | None = None
    """Host link, one direction [bytes/s]."""
    power_w: Figure | None = None
    gpu: GpuFacts | None = None


class Link(Frozen):
    """One level of interconnect, as one device sees it."""

    name: str
    oneway_bytes_per_s: Figure
    """One direction, one device, all its links of this level that one collective can use [bytes/s]."""
    latency_s: Figure
    """One hop of one message [s]."""


class Allowance(Frozen):
    """Memory beyond the executable's own need: runtime and context, communicators, allocator fragmentation."""

    usable_ratio: Figure
    """Share of ``hbm_bytes`` that the allocator's pool may take."""
    runtime_bytes: Figure
    """CUDA context / TPU runtime, autotuned workspaces [bytes]."""
    communicator_bytes: Figure
    """Each communicator (mesh axis group) outside the executable's buffers [bytes]."""


class HardwareSpec(Frozen):
    """A machine: ``domains`` domains of ``domain_size`` devices each; ``node_size`` devices share one host."""

    name: str
    source: str = "user"
    kind: Literal["gpu", "tpu", "cpu"]
    device: DeviceSpec
    domain_size: Annotated[int, Field(gt=0)]
    """Devices joined by NVLink, by one ICI slice, or one host."""
    node_size: Annotated[int, Field(gt=0)]
    domains: Annotated[int, Field(gt=0)] = 1
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
    topology_name: str | None = None
    """TPU: libtpu's name of the topology, for example ``v5p:4x4x2``."""
    topology_options: dict[str, str | int | bool | tuple[int, ...]] = {}
    """TPU: further options of get_topology_desc (megacore)."""
    allowance: Allowance
    notes: tuple[str, ...] = ()

    @property
    def devices(self) -> int:
        """All devices."""
        return self.domain_size * self.domains

    @property
    def backends(self) -> tuple[str, ...]:
        """Backends that this kind of hardware has at all (what a toolchain has is another matter)."""
        return {"gpu": ("nccl", "nvshmem", "symmetric"), "tpu": ("ici",), "cpu": ("host",)}[self.kind]

    @property
    def usable_bytes(self) -> int:
        """The default budget: what the allocator's pool may hold on one device [bytes]."""
        return int(self.device.hbm_bytes.value * self.allowance.usable_ratio.value)
