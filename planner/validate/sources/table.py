"""A published table as it is written in its file: facts of a source, with null where the source gives no value.

The format is docs/tables.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from lcplan.formats.errors import BadInputError
from lcplan.formats.frozen import Frozen
from lcplan.formats.units import parse_bytes, parse_seconds, parse_tokens
from lcplan.spec.rollout_workloads import WORKLOAD_TYPES
from lcplan.spec.workload_facts import WorkloadFacts
from lcplan.strategy import AXIS_WORDS, CacheLayout, CollectiveMatmul, Dtype, KvDtype, MoeDispatch, ParameterLayout
from lcplan.strategy.remat import tensor_name
from lcplan.strategy.state_knobs import GradDtype, MasterDtype, MomentsDtype, Optimizer

FlopConvention = Literal["model", "full-attention", "hardware", "unknown"]
"""Which FLOPs a source's TFLOP/s count: causal attention halved, in full, or with recomputation."""

MemoryFigure = Literal["executable", "allocated", "reserved", "device"]
"""The meaning of a source's peak bytes: the executable's own need, the allocator's peak, its pool, or the whole device."""

Part = Literal[
    "step",
    "attention",
    "attention-forward",
    "attention-backward",
    "layer-forward",
    "layer-backward",
    "up-product",
    "feed-forward",
]
"""The part that a source timed: a train step; one layer's attention with the communication of its scheme; one whole layer;
the first or both products of a layer's feed-forward block, forward, with the communication over tensor."""

Quantity = Literal["step_s", "tokens_per_s_per_device", "tflop_per_s_per_device", "peak_bytes", "fits"]
QUANTITIES: tuple[Quantity, ...] = ("tflop_per_s_per_device", "tokens_per_s_per_device", "step_s", "peak_bytes", "fits")
"""Quantities in the order in which a pair's ratio is taken."""

Count = Annotated[int, Field(gt=0, le=2**40)]
Positive = Annotated[float, Field(gt=0)]


class Source(Frozen):
    """The publication of the figures."""

    title: str
    where: str
    date: str | None = None


class RowMesh(Frozen):
    """Axis sizes; only tables know ``pipe``."""

    data: Count | None = None
    fsdp: Count | None = None
    context: Count | None = None
    tensor: Count | None = None
    expert: Count | None = None
    pipe: Count | None = None

    @model_validator(mode="before")
    @classmethod
    def _known(cls, data: Any) -> Any:
        other = [name for name in data if name in AXIS_WORDS] if isinstance(data, dict) else []
        if other:
            raise ValueError("; ".join(f"{name!r} is called {AXIS_WORDS[name]!r} here" for name in other))
        return data


def _with_unit(parse: Callable[[str], float]) -> BeforeValidator:
    """Text is read with its unit; a mistake in it is one of the row's problems."""

    def read(value: Any) -> Any:
        try:
            return parse(value) if isinstance(value, str) else value
        except BadInputError as error:
            raise ValueError(str(error)) from None

    return BeforeValidator(read)


def _switch(value: Any) -> Any:
    """Undo YAML's reading of ``remat: no`` and ``remat: on`` as booleans; and make a list a tuple."""
    if isinstance(value, bool):
        return "full" if value else "save-all"
    if isinstance(value, list):
        return tuple(tensor_name(name) if isinstance(name, str) else name for name in value)
    return value


Tokens = Annotated[Count, _with_unit(parse_tokens)]
"""``8192``, or ``8k`` (k = 1024)."""


class RowWorkload(Frozen):
    """The batch of a step; with ``kind: sample`` a rollout of ``global_batch`` sequences, whose seconds are ``step_s``."""

    kind: Literal["train", "sample"] = "train"
    prompt: Count | None = None
    generate: Count | None = None
    kv_dtype: KvDtype = "bf16"
    donate: bool = True
    seq_len: Tokens | None = None
    global_batch: Count | None = None
    precision: str | None = None
    part: Part = "step"

    @property
    def facts(self) -> WorkloadFacts:
        """The facts of its kind."""
        return WORKLOAD_TYPES[self.kind].facts


class RowStrategy(Frozen):
    """How it was laid out. ``remat`` is a policy's name, or the list of the named tensors of a layer that are kept."""

    mesh: RowMesh = RowMesh()
    scheme: str | None = None
    remat: Annotated[str | tuple[str, ...] | None, BeforeValidator(_switch)] = None
    ulysses: Count | None = None
    backend: str | None = None
    microbatches: Count | None = None
    micro_batch: Count | None = None
    """Sequences of one microbatch on a rank of data x fsdp x expert, for sources that state these."""
    loss_chunk_tokens: Count | None = None
    attention_block: Count | None = None
    collective_matmul: CollectiveMatmul | None = None
    gather_dtype: Dtype | None = None
    reduce_dtype: Dtype | None = None
    moments_dtype: MomentsDtype | None = None
    optimizer: Optimizer | None = None
    master_dtype: MasterDtype | None = None
    grad_dtype: GradDtype | None = None
    moe_dispatch: MoeDispatch | None = None
    moe_capacity_percent: Annotated[int, Field(ge=0, le=100000)] | None = None
    deterministic: bool = False
    """Whether attention's backward pass adds in a fixed order."""
    double_ring: bool = False
    """Whether a ring runs inside windows and between them, with communicators of their own (LoongTrain)."""
    transformer_engine: bool = False
    """Whether a PyTorch trainer's attention is Transformer Engine's, the best fused kernel of the device."""
    optimizer_offload: bool = False
    """Whether the optimizer's state is in the host's memory, which is not modelled."""
    tiled_mlp: Count | None = None
    """Pieces of the sequence in which a feed-forward runs; more than one is not modelled."""
    parameters: ParameterLayout = "gathered-per-step"
    """A field of rollouts, like ``cache``."""
    cache: CacheLayout = "whole"


class Measured(Frozen):
    """The source's measurements. ``fits`` false: it ran out of memory."""

    step_s: Annotated[Positive, _with_unit(parse_seconds)] | None = None
    tokens_per_s_per_device: Positive | None = None
    tflop_per_s_per_device: Positive | None = None
    mfu_ratio: Annotated[float, Field(gt=0, le=2)] | None = None
    """Model FLOP/s over the device's peak; it counts FLOPs by the table's ``flop_convention``."""
    peak_bytes: Annotated[Positive, _with_unit(parse_bytes)] | None = None
    fits: bool | None = None

    @property
    def stated(self) -> dict[Quantity, float | bool]:
        """The measured quantities, in the order of ``QUANTITIES``."""
        values: dict[Quantity, float | bool | None] = {name: getattr(self, name) for name in QUANTITIES}
        return {name: value for name, value in values.items() if value is not None}


class Row(Frozen):
    """One run of a source, with the table's defaults merged in."""

    id: Annotated[str, Field(min_length=1, max_length=120)]
    model: str | dict[str, Any] | None = None
    hardware: str | dict[str, Any] | None = None
    devices: Count | None = None
    workload: RowWorkload = RowWorkload()
    strategy: RowStrategy = RowStrategy()
    program: str | dict[str, Any] | None = None
    measured: Measured = Measured()
    note: str | None = None


class Pair(Frozen):
    """Two rows whose ratio the source states or that matters; ``measured_ratio`` where the source gives only the ratio."""

    a: str
    b: str
    quantity: Quantity | None = None
    measured_ratio: Positive | None = None


class PublishedTable(Frozen):
    """One source's rows."""

    schema_version: Literal[1, 2]
    name: Annotated[str, Field(min_length=1, max_length=80)]
    source: Source
    flop_convention: FlopConvention = "unknown"
    memory_figure: MemoryFigure = "allocated"
    noise_ratio: Annotated[float, Field(ge=0, le=1)] | None = None
    notes: tuple[str, ...] = ()
    interpreted: tuple[str, ...] = ()
    """Decisions of the table's author, made with its rows in view, where the source is silent or ambiguous."""
    rows: tuple[Row, ...]
    pairs: tuple[Pair, ...] = ()
