"""The operations of an executable in the order of its schedule: kernels, messages and loops, without times."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from lcplan.evidence.measurement import Bytes, Compiled
from lcplan.formats.frozen import Frozen
from lcplan.spec.collective import Op

KernelKind = Literal["product", "attention", "memory", "host"]


class Kernel(Frozen):
    """``calls`` equal operations of one device between two messages."""

    what: Literal["kernel"] = "kernel"
    kind: KernelKind
    """``host`` is a copy over the host's link; ``memory`` everything that the memory's bandwidth bounds."""
    name: str
    """The operation in words: ``product``, ``cuDNN attention``, ``fusion``, ``copy``."""
    flop: float = 0.0
    """Work of one call [FLOP]."""
    bytes: float = 0.0
    """Traffic of one call through the device's memory, or over the host's link [bytes]."""
    dtype: str = "bf16"
    """Element type of the operands of a product."""
    keys: float = 0.0
    """Attention: mean keys of a query [tokens]."""
    head_dim: int = 0
    backward: bool = False
    calls: int = 1


class Message(Frozen):
    """One collective. An asynchronous one ends at the ``Done`` of its number."""

    what: Literal["message"] = "message"
    op: Op
    axis: str
    bytes: int
    """Larger side of the operand, as in ``CollectiveUse`` [bytes]."""
    members: int
    """Devices of a group."""
    stride: int = 1
    """Distance of neighbours of a group, in devices."""
    inner: int = 1
    """Fewest members of a group in one domain."""
    crosses: int = 1
    """Most domains of a group."""
    number: int | None = None
    """None: nothing runs until it has ended."""


class Done(Frozen):
    """The end of an asynchronous collective."""

    what: Literal["done"] = "done"
    number: int


class Loop(Frozen):
    """``trips`` runs of a body, one after another."""

    what: Literal["loop"] = "loop"
    trips: int
    body: tuple[Item, ...]


class Branch(Frozen):
    """Bodies of which a device runs one."""

    what: Literal["branch"] = "branch"
    bodies: tuple[tuple[Item, ...], ...]


Item = Annotated[Kernel | Message | Done | Loop | Branch, Field(discriminator="what")]
Loop.model_rebuild()
Branch.model_rebuild()


class Execution(Frozen):
    """An executable's operations. ``unknown`` lists kernels whose work its text does not state, which count as free."""

    items: tuple[Item, ...]
    unknown: dict[str, int] = {}


class Buffer(Frozen):
    """One array that is alive at the peak of an executable's memory."""

    bytes: Bytes
    shape: str
    operation: str
    """The operation's name in the traced program; for an argument the name of its leaf."""
    line: str = ""
    """FILE:LINE of the source that made it, where the executable names it."""


class MemoryCurve(Frozen):
    """Memory over the schedule of an executable; the bodies of loops are in it once."""

    bytes: tuple[int, ...]
    """Bytes that are alive, at points of equal distance in the schedule; each is the most of its instructions."""
    instructions: int
    peak_at: int
    """The instruction at the peak, counted from the first."""
    peak_bytes: int
    """Sum of the arrays at the peak; the executable needs more where its placement leaves gaps [bytes]."""
    operation: str
    line: str = ""
    """FILE:LINE of the source of the instruction at the peak."""


class Inside(Frozen):
    """The facts of an executable that only a closer look reads."""

    saved: tuple[Buffer, ...] = ()
    """The largest arrays that the forward pass keeps for the backward pass."""
    saved_bytes: int = 0
    """All such arrays [bytes]."""
    memory: MemoryCurve | None = None
    """None: the compiler writes no live ranges (libtpu)."""


class StepCompiled(Compiled):
    """The compile of a step of one's own."""

    buffers: tuple[Buffer, ...] = ()
    """The largest arrays at the peak."""
    execution: Execution | None = None
    inside: Inside | None = None
    """None: a search does not read it."""
