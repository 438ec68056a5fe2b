"""Strategy: one point of the space. Everything that decides which program is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from lcplan.formats.frozen import Frozen
from lcplan.strategy.remat import OFFLOAD_PERCENT, RematName

Size = Annotated[int, Field(gt=0, le=2**20)]
Part = Annotated[int, Field(gt=0, le=2**40)]
"""Of a workload's sequences or tokens, of which there may be as many."""
Scheme = Literal["ring", "ring-zigzag", "all-gather", "ulysses", "ulysses-ring"]
Backend = Literal["nccl", "nvshmem", "symmetric", "ici", "host"]
AxisName = Literal["data", "fsdp", "context", "tensor", "expert"]
ShardingMode = Literal["manual", "auto", "explicit"]
Scheduler = Literal[
    "default",
    "latency-hiding",
    "no-latency-hiding",
    "pipelined",
    "combined-64mib",
    "combined",
    "combined-1gib",
    "synchronous",
]
Dtype = Literal["bf16", "fp32"]
Switch = Literal["off", "on"]
CollectiveMatmul = Literal["off", "one-way", "two-way"]

MoeDispatch = Literal["dropless", "capacity", "gather"]
ParameterLayout = Literal["replicated", "gathered-once", "gathered-per-step", "tensor-sharded"]
CacheLayout = Literal["whole", "power-of-two"]

AXES: tuple[AxisName, ...] = ("data", "fsdp", "context", "tensor", "expert")
AXIS_WORDS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("dp", "ddp", "replica", "dp_replicate"), "data"),
        **dict.fromkeys(("dp_shard", "zero"), "fsdp"),
        **dict.fromkeys(("cp", "sp", "seq", "sequence"), "context"),
        **dict.fromkeys(("tp", "model"), "tensor"),
        "ep": "expert",
        **dict.fromkeys(("pp", "pipeline", "stage"), "pipe"),
    }
)
"""What others call the axes; ``pipe`` is a word of tables alone."""
SCHEMES: tuple[Scheme, ...] = ("ring", "ring-zigzag", "all-gather", "ulysses", "ulysses-ring")
RING_SCHEMES: tuple[Scheme, ...] = ("ring", "ring-zigzag", "ulysses-ring")
"""Schemes whose keys and values travel round a ring."""
SHARDING_MODES: tuple[ShardingMode, ...] = ("manual", "auto", "explicit")
SCHEDULERS: tuple[Scheduler, ...] = get_args(Scheduler)
MOE_DISPATCHES: tuple[MoeDispatch, ...] = ("dropless", "capacity", "gather")
ATTENTION_BLOCK = 512
"""Queries of a tile where a strategy leaves it to the kernel: MaxText's default for splash (``sa_block_q`` and its like)."""
HOST_ATTENTION_BLOCK = 128
"""What the grid takes on a host instead, whose caches hold such tiles: they take half the time of those of 512."""
MOE_ROOM_PERCENT = 200
"""Rows that there is room for at an expert rank, over a balanced load."""
BACKENDS: tuple[Backend, ...] = ("nccl", "nvshmem", "symmetric", "ici", "host")
GPU_BACKENDS: tuple[Backend, ...] = ("nccl", "nvshmem", "symmetric")

COLLECTIVE_MATMULS: tuple[CollectiveMatmul, ...] = ("off", "one-way", "two-way")

AXIS_ORDERS: tuple[tuple[AxisName, ...], ...] = (
    ("data", "fsdp", "context", "expert", "tensor"),
    ("data", "context", "fsdp", "expert", "tensor"),
)
"""Placements: mesh axes from the outermost (crosses nodes first) to the innermost (neighbouring devices)."""


class Mesh(Frozen):
    """Sizes of the named mesh axes."""

    data: Size = 1
    fsdp: Size = 1
    context: Size = 1
    tensor: Size = 1
    expert: Size = 1

    @property
    def devices(self) -> int:
        """Product of the axes."""
        return prod(self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes in the order of ``AXES``."""
        return tuple(getattr(self, axis) for axis in AXES)

    @property
    def communicators(self) -> int:
        """Groups that one device talks in: one for each axis above one, and one for fsdp with context.

        >>> Mesh(fsdp=2, context=16, tensor=2).communicators
        4
        """
        return sum(size > 1 for size in self.sizes) + (self.fsdp > 1 and self.context > 1)

    @property
    def label(self) -> str:
        """The axes above one, as a person writes them: ``context=16,tensor=2``."""
        parts = [f"{axis}={size}" for axis, size in zip(AXES, self.sizes, strict=True) if size > 1]
        return ",".join(parts) or "one device"


class Sampling(Frozen):
    """How a rollout is laid out, on a mesh of its own over the same devices."""

    mesh: Mesh
    """Sequences over data and fsdp, key/value heads over tensor."""
    parameters: ParameterLayout
    """``gathered-per-step``: fsdp's shards, a layer gathered in each decode step. ``gathered-once``: gathered over fsdp before
    the loop and kept beside the shards. ``replicated`` and ``tensor-sharded``: each device (of a tensor group) has them all."""
    cache: CacheLayout = "whole"
    """``power-of-two``: one program for each power of two of filled positions, so that attention reads no others."""
    beside_training: bool = False
    """Whether the strategy's train step takes turns with the rollout, so that its state stays on the devices."""

    @property
    def label(self) -> str:
        """``data=16 gathered-once cache=whole``."""
        return f"{self.mesh.label} {self.parameters} cache={self.cache}"


class Strategy(Frozen):
    """How one train step is laid out. ``devices`` is the product of the mesh."""

    mesh: Mesh
    scheme: Scheme = "ring-zigzag"
    ulysses: Size = 1
    """Neighbouring context ranks that exchange heads in scheme ulysses-ring; the ring goes over the groups of them."""
    bidirectional: Switch = "off"
    """Whether one half of the heads' keys and values travels round the ring forwards and the other half backwards."""
    remat: RematName = "full"
    offload_percent: Annotated[int, Field(ge=1, le=100)] = OFFLOAD_PERCENT
    """Share of every run of layers, its first, whose tensors an offloading ``remat`` sends to the host; the other layers keep
    them on the device."""
    backend: Backend = "nccl"
    microbatches: Part = 1
    loss_chunk_tokens: Part = 2048
    """Tokens of one context rank whose logits exist at a time (before the tensor axis splits the vocabulary)."""
    attention_block: Annotated[int, Field(ge=0, le=2**16)] = 0
    """Largest number of queries in a tile of an attention kernel that is cut into tiles (splash takes as many keys, blockwise
    twice as many); 0 leaves it to the kernel. cuDNN chooses its own."""
    axis_order: tuple[AxisName, ...] = AXIS_ORDERS[0]
    sharding_mode: ShardingMode = "manual"
    """Who places arrays: the program itself (``manual``), the compiler (``auto``), the arrays' types (``explicit``)."""
    scheduler: Scheduler = "default"
    """A preset of XLA's scheduling flags, by their names under the jax at hand (``planner.measure.targets.schedulers``)."""
    collective_matmul: CollectiveMatmul = "off"
    """Whether products over tensor are cut up and their rows or sums go round the tensor axis, one way or both ways at once."""
    gather_dtype: Dtype = "bf16"
    """Weights are cast to this before FSDP gathers them."""
    reduce_dtype: Dtype = "fp32"
    """Gradients of matrices are reduced over fsdp x context in this."""
    moments_dtype: Dtype = "fp32"
    """AdamW's two moments."""
    moe_dispatch: MoeDispatch = "dropless"
    """How tokens reach their experts. ``dropless``: all-to-all of rows sorted by expert. ``capacity``: all-to-all of a fixed
    number of rows for each expert. ``gather``: every rank gathers all tokens and multiplies those that are its own."""
    moe_room_percent: Annotated[int, Field(ge=0, le=100000)] = MOE_ROOM_PERCENT
    """Rows that an expert rank (``capacity``: an expert) has room for, over its share of a balanced load; rows beyond are
    dropped and counted. 0: the worst case, so that nothing can be dropped."""
    sampling: Sampling | None = None
    """The rollout's layout, where the workload has one."""

    @model_serializer(mode="wrap")
    def _without_rollout(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A train step's strategy has no key for what it does not have."""
        data: dict[str, Any] = dump(self)
        if self.sampling is None:
            data.pop("sampling", None)
        return data

    @property
    def devices(self) -> int:
        """Devices that the mesh takes."""
        return self.mesh.devices

    @property
    def state_shards(self) -> int:
        """Over how many devices matrices and their optimizer state are split: fsdp x context x tensor x expert."""
        return self.mesh.fsdp * self.mesh.context * self.mesh.tensor * self.mesh.expert

    @property
    def remat_label(self) -> str:
        """The remat policy as a table's cell: ``offload-layer-in 50%`` where not all layers offload."""
        return self.remat if self.offload_percent == OFFLOAD_PERCENT else f"{self.remat} {self.offload_percent}%"

    @property
    def scheme_label(self) -> str:
        """The scheme as a table's cell: ``ulysses-ring/4``, ``ring 2-way``; ``-`` without a context axis."""
        if self.mesh.context == 1:
            return "-"
        exchange = f"/{self.ulysses}" if self.ulysses > 1 else ""
        return f"{self.scheme}{exchange}{' 2-way' if self.bidirectional == 'on' else ''}"

    @property
    def label(self) -> str:
        """One line that names the strategy in tables and messages."""
        if self.sampling is not None and not self.sampling.beside_training:
            return f"{self.sampling.label} {self.backend}"
        rollout = f"; rollout {self.sampling.label}" if self.sampling else ""
        scheme = f" {self.scheme}" if self.mesh.context > 1 else ""
        scheme += f" ulysses={self.ulysses}" if self.ulysses > 1 else ""
        scheme += " bidirectional=on" if self.bidirectional == "on" else ""
        label = f"{self.mesh.label}{scheme} remat={self.remat} {self.backend} microbatches={self.microbatches}"
        mode = f" sharding_mode={self.sharding_mode}" if self.sharding_mode != "manual" else ""
        label += f" offload-percent={self.offload_percent}" if self.offload_percent != OFFLOAD_PERCENT else ""
        label += f" attention-block={self.attention_block}" if self.attention_block else ""
        label += f" collective-matmul={self.collective_matmul}" if self.collective_matmul != "off" else ""
        return label + mode + (f" scheduler={self.scheduler}" if self.scheduler != "default" else "") + rollout
