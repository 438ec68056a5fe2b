"""The knobs: one record each, at the field that holds its value. Every list of knobs derives from ``KNOBS``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

from pydantic import AliasChoices, BeforeValidator, Field

from lcplan.formats.frozen import Frozen
from lcplan.strategy.axes import AXIS_ORDERS, AxisName, Mesh, Size
from lcplan.strategy.knob import Knob, knobs_of
from lcplan.strategy.remat import GRID_POLICIES, OFFLOAD_PERCENT, REMAT_ALIASES, REMAT_POLICIES, RematName, remat_name
from lcplan.strategy.schemes import DEFAULT_SCHEME, GROUP_SCHEME_NAMES, GROUP_SCHEMES, RING_SCHEMES, SCHEMES, Scheme
from lcplan.strategy.state_knobs import GradKnob, MasterKnob, MomentsKnob, OptimizerKnob

Part = Annotated[int, Field(gt=0, le=2**40)]
"""A number of sequences or tokens, at most all that a workload has."""
Backend = Literal["nccl", "nvshmem", "symmetric", "rccl", "ici", "host"]
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
    "command-buffers",
    "no-command-buffers",
    "one-shot-all-reduce",
]
Dtype = Literal["bf16", "fp32"]
KvDtype = Literal["bf16", "fp32", "fp8"]
"""Dtypes of a rollout's cache; fp8 is e4m3 with an fp32 factor per token and head."""
Schedule = Literal["1f1b", "interleaved", "gpipe", "circular", "zb-h1", "zb-h2", "zb-v", "breadth-first"]
Switch = Literal["off", "on"]
CollectiveMatmul = Literal["off", "one-way", "two-way"]
MoeDispatch = Literal["dropless", "capacity", "gather"]
ExpertTensor = Literal["split", "whole"]
ParameterLayout = Literal["replicated", "gathered-once", "gathered-per-step", "tensor-sharded"]
CacheLayout = Literal["whole", "power-of-two"]

SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)
BUILT_SCHEDULES: tuple[Schedule, ...] = SCHEDULES[:4]
"""Schedules that lcplan's own step has."""
LATE_SCHEDULES: tuple[Schedule, ...] = ("gpipe", "circular")
"""Schedules in which backward passes begin after all forward passes."""
VIRTUAL_SCHEDULES: tuple[Schedule, ...] = ("interleaved", "circular")
"""Schedules whose stages may hold several chunks of layers."""
BACKENDS: tuple[Backend, ...] = get_args(Backend)
GPU_BACKENDS: tuple[Backend, ...] = ("nccl", "nvshmem", "symmetric", "rccl")
COLLECTIVE_MATMULS: tuple[CollectiveMatmul, ...] = get_args(CollectiveMatmul)
SCHEDULERS: tuple[Scheduler, ...] = get_args(Scheduler)
MOE_DISPATCHES: tuple[MoeDispatch, ...] = get_args(MoeDispatch)
ATTENTION_BLOCK = 512
"""Queries of a tile where a strategy leaves it to the kernel: MaxText's default for splash (``sa_block_q`` and its like)."""
HOST_ATTENTION_BLOCK = 128
"""Query tile of the grid on a host, whose caches hold tiles of this size: they take half the time of tiles of 512."""

ALL = ("train", "sample", "rl")
ROLLOUT = ("sample", "rl")


class StepKnobs(Frozen):
    """The knobs of a strategy and its mesh."""

    mesh: Mesh
    scheme: Annotated[
        Scheme,
        Knob(
            help="How context ranks exchange keys and values",
            grid=SCHEMES,
            axis="context",
            shown=True,
            bare=True,
            tuner=SCHEMES,
        ),
    ] = DEFAULT_SCHEME
    ulysses: Annotated[
        Size,
        Knob(
            help=f"Context ranks per group exchanging heads in {GROUP_SCHEME_NAMES}; a ring joins the groups",
            follows="all that fit",
            axis="context",
            active=lambda strategy: strategy.scheme in GROUP_SCHEMES,
            active_when=f"scheme is {GROUP_SCHEME_NAMES}",
        ),
    ] = 1
    bidirectional: Annotated[
        Switch,
        Knob(
            help="Send half of the heads' keys and values in each direction of the ring",
            needs_key=True,
            axis="context",
            active=lambda strategy: strategy.scheme in RING_SCHEMES,
            active_when="scheme has a ring",
            tuner=get_args(Switch),
        ),
    ] = "off"
    remat: Annotated[
        RematName,
        BeforeValidator(remat_name),
        Knob(
            help="Remat policy: which activations are saved for the backward pass",
            grid=GRID_POLICIES,
            shown=True,
            tuner=tuple(REMAT_POLICIES),
            spellings=REMAT_ALIASES,
        ),
    ] = "full"
    offload_percent: Annotated[
        int,
        Field(ge=1, le=100),
        Knob(
            help="Share of the layers that offload their saved tensors to the host, from the first of each layer loop",
            needs_key=True,
            workloads=("train",),
            active=lambda strategy: bool(REMAT_POLICIES[strategy.remat].offloaded),
            active_when="remat offloads",
            unit="%",
            tuner=(25, 50, 75, 100),
        ),
    ] = OFFLOAD_PERCENT
    backend: Annotated[
        Backend,
        Knob(
            help="Collective backend: nccl nvshmem symmetric on NVIDIA GPUs, rccl on AMD GPUs, ici on TPUs, host on a CPU",
            workloads=ALL,
            follows="every backend of the toolchain",
            shown=True,
            bare=True,
        ),
    ] = "nccl"
    microbatches: Annotated[
        Part,
        Knob(help="Gradient accumulation steps", follows="every divisor of a rank's sequences", shown=True),
    ] = 1
    schedule: Annotated[
        Schedule,
        Knob(
            help="Order in which the stages of a pipeline run forward and backward passes",
            grid=("1f1b", "interleaved"),
            axis="pipe",
            workloads=("train",),
        ),
    ] = "1f1b"
    virtual_stages: Annotated[
        Size,
        Knob(
            help="Chunks of layers on each stage of a pipeline, in schedules that interleave them",
            grid=(1, 2, 4),
            axis="pipe",
            workloads=("train",),
        ),
    ] = 1
    loss_chunk_tokens: Annotated[
        Part,
        Knob(
            help="Tokens per context rank whose logits are in memory at a time",
            follows="divisors of a rank's tokens, up to 1024 and 4096",
            unit="tokens",
            shown=False,
            tuner=(256, 512, 1024, 2048, 4096, 8192, 16384),
        ),
    ] = 2048
    attention_block: Annotated[
        int,
        Field(ge=0, le=2**16),
        Knob(
            help="Largest query tile of the attention kernel; 0: the kernel's default",
            needs_key=True,
            grid_on={"cpu": (HOST_ATTENTION_BLOCK,)},
            unit="tokens",
            tuner=(0, 64, 128, 256, 1024, 2048),
        ),
    ] = 0
    """Splash takes as many keys, blockwise twice as many; cuDNN chooses its own."""
    segment: Annotated[
        int,
        Field(ge=0, le=2**20),
        Knob(
            help="Devices used of each domain (rack, node, slice) by a job on several; 0: all of them",
            workloads=ALL,
            follows="the segments that whole hosts and the mesh allow",
            unit="devices",
        ),
    ] = 0
    axis_order: tuple[AxisName, ...] = AXIS_ORDERS[0]
    """The placement of the axes. It carries no record: the mesh and the hardware decide which placements differ."""
    sharding_mode: Annotated[
        ShardingMode,
        Knob(help="How arrays are sharded: manual by shard_map, auto by the compiler, explicit by array types", needs_key=True),
    ] = "manual"
    scheduler: Annotated[Scheduler, Knob(help="Preset of XLA scheduling flags", needs_key=True, tuner=SCHEDULERS)] = "default"
    """Its flags by their names under the jax at hand: ``planner.measure.targets.schedulers``."""
    collective_matmul: Annotated[
        CollectiveMatmul,
        Knob(
            help="Overlap tensor-parallel matmuls with their communication, in a ring of one or two directions",
            axis="tensor",
            tuner=COLLECTIVE_MATMULS,
        ),
    ] = "off"
    gather_dtype: Annotated[Dtype, Knob(help="Dtype of the weights in FSDP gathers", workloads=ALL)] = "bf16"
    reduce_dtype: Annotated[Dtype, Knob(help="Dtype of the gradients in FSDP reductions")] = "fp32"
    """Gradients of matrices are reduced over fsdp x context in this."""
    optimizer: OptimizerKnob = "adamw"
    master_dtype: MasterKnob = "fp32"
    moments_dtype: MomentsKnob = "fp32"
    grad_dtype: GradKnob = "fp32"
    moe_dispatch: Annotated[
        MoeDispatch,
        Knob(help="How tokens reach their experts", workloads=("train",), active_when="the model has experts"),
    ] = "dropless"
    """``dropless``: all-to-all of rows sorted by expert. ``capacity``: all-to-all of a fixed number of rows for each expert.
    ``gather``: every rank gathers all tokens and multiplies only the rows of its own experts."""
    moe_capacity_percent: Annotated[
        int,
        Field(ge=0, le=100000, validation_alias=AliasChoices("moe_capacity_percent", "moe_room_percent")),
        Knob(
            help="Expert capacity in % of a balanced load (200 = capacity factor 2.0); 0: the worst case, no row is dropped",
            workloads=("train",),
            active_when="the model has experts",
            unit="%",
        ),
    ] = 200
    """Capacity of an expert rank; with ``capacity``, of each expert. Rows beyond it are dropped and counted."""

    expert_fold: Annotated[
        Size,
        Knob(
            help="Expert ranks among the tensor, context and fsdp ranks, from the innermost, in place of an expert axis",
            needs_key=True,
            workloads=("train",),
            active_when="the model has experts",
        ),
    ] = 1
    """Megatron and torchtitan fold them so. The cost model prices it; lcplan's own step has the expert axis."""
    expert_tensor: Annotated[
        ExpertTensor,
        Knob(
            help="Whether tensor ranks split each expert, or are expert ranks that hold whole experts",
            needs_key=True,
            workloads=("train",),
            axis="tensor",
            active=lambda strategy: strategy.expert_fold > 1,
            active_when="expert_fold is above 1",
        ),
    ] = "split"


class RolloutKnobs(Frozen):
    """The knobs of a rollout and its mesh."""

    mesh: Mesh
    """Sequences over data and fsdp, key/value heads over tensor."""
    parameters: Annotated[
        ParameterLayout,
        Knob(
            help="Layout of the parameters during decoding",
            workloads=ROLLOUT,
            follows="every layout of the mesh",
            shown=True,
            bare=True,
        ),
    ] = "gathered-per-step"
    """``gathered-per-step``: fsdp's shards, a layer gathered in each decode step. ``gathered-once``: gathered over fsdp before
    the loop and kept next to the shards. ``replicated``, ``tensor-sharded``: each device (of a tensor group) has them all."""
    cache: Annotated[
        CacheLayout,
        Knob(
            help="One program for the whole KV cache, or one per power of two of filled positions",
            workloads=ROLLOUT,
            grid=get_args(CacheLayout),
            shown=True,
        ),
    ] = "whole"
    """``power-of-two``: attention reads the filled positions and no others."""


STEP_KNOBS: Mapping[str, Knob] = MappingProxyType(knobs_of(StepKnobs.model_fields))
ROLLOUT_KNOBS: Mapping[str, Knob] = MappingProxyType(knobs_of(RolloutKnobs.model_fields))
KNOBS: Mapping[str, Knob] = MappingProxyType({**STEP_KNOBS, **ROLLOUT_KNOBS})
"""Every knob by name, in the order in which options, columns and plans list them."""
KNOB_ALIASES: Mapping[str, str] = MappingProxyType({alias: name for name, knob in KNOBS.items() for alias in knob.aliases})
"""Earlier spellings of names."""


def renamed(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same values under the current names of knobs; a knob that is given under two names keeps both, which is an error.

    >>> renamed({"moe_room_percent": 125})
    {'moe_capacity_percent': 125}
    """
    return {name if (name := KNOB_ALIASES.get(key, key)) not in data else key: value for key, value in data.items()}
