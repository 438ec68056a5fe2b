"""The axes of a mesh: one record each, at the field of ``Mesh`` that holds its size. Every list of axes derives from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from lcplan.formats.frozen import Frozen

Size = Annotated[int, Field(gt=0, le=2**20)]
Dimension = Literal["batch", "sequence", "heads and columns", "experts", "layers"]
"""A dimension of the work that an axis can split."""


@dataclass(frozen=True)
class Axis:
    """The facts of one mesh axis. ``name`` is the name of the field that carries the record."""

    letter: str
    """One letter for narrow tables: ``c16`` is context 16."""
    splits: tuple[Dimension, ...]
    """The dimensions that its ranks share."""
    state: bool
    """Whether matrices and their optimizer state are split over it."""
    help: str
    """One line for the notation page."""
    places: tuple[int, int] | None
    """Its rank in each placement (``AXIS_ORDERS``): the smallest is outermost, the largest joins neighbouring devices. Gaps
    are for further axes. None: outside all of these."""
    aliases: tuple[str, ...] = ()
    """Names that other programs give to the axis."""
    in_rollout: bool = True
    """Whether the mesh of a rollout can have it: a decode step has one token of each sequence."""
    optional: bool = False
    """Whether most models cannot use it, so that it is named only where it is above one."""
    name: str = ""


class Mesh(Frozen):
    """Sizes of the named mesh axes."""

    data: Annotated[
        Size,
        Axis(
            letter="d",
            splits=("batch",),
            state=False,
            help="sequences; parameters are replicated over it",
            places=(10, 10),
            aliases=("dp", "ddp", "replica", "dp_replicate"),
        ),
    ] = 1
    fsdp: Annotated[
        Size,
        Axis(
            letter="f",
            splits=("batch",),
            state=True,
            help="sequences, and parameters with their optimizer state",
            places=(20, 30),
            aliases=("dp_shard", "zero"),
        ),
    ] = 1
    context: Annotated[
        Size,
        Axis(
            letter="c",
            splits=("sequence",),
            state=True,
            help="tokens of a sequence, and parameters with their optimizer state",
            places=(30, 20),
            aliases=("cp", "sp", "seq", "sequence"),
            in_rollout=False,
        ),
    ] = 1
    tensor: Annotated[
        Size,
        Axis(
            letter="t",
            splits=("heads and columns",),
            state=True,
            help="heads, feed-forward width and vocabulary",
            places=(50, 50),
            aliases=("tp", "model"),
        ),
    ] = 1
    expert: Annotated[
        Size,
        Axis(
            letter="e",
            splits=("experts", "batch"),
            state=True,
            help=("experts; and of everything else sequences, and parameters with their optimizer state (1 in a dense model)"),
            places=(40, 40),
            aliases=("ep",),
            in_rollout=False,
            optional=True,
        ),
    ] = 1
    pipe: Annotated[
        Size,
        Axis(
            letter="p",
            splits=("layers",),
            state=True,
            help="layers: each rank is a stage of a pipeline (1: no pipeline)",
            places=None,
            aliases=("pp", "pipeline", "stage"),
            in_rollout=False,
            optional=True,
        ),
    ] = 1

    @model_serializer(mode="wrap")
    def _without_pipeline(self, dump: SerializerFunctionWrapHandler) -> dict[str, int]:
        """Leave out a pipeline that is not there: plans and results of earlier versions have no such key."""
        sizes: dict[str, int] = dump(self)
        return sizes if self.pipe > 1 else {name: size for name, size in sizes.items() if name != "pipe"}

    @property
    def devices(self) -> int:
        """Product of the axes."""
        return prod(self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes in the order of ``AXES``."""
        return tuple(getattr(self, axis) for axis in AXES)

    @property
    def batch_ranks(self) -> int:
        """Ranks that have sequences of their own: the product of the axes that split the batch.

        >>> Mesh(data=2, fsdp=4, context=8).batch_ranks
        8
        """
        return prod(getattr(self, axis) for axis in splitting("batch"))

    @property
    def state_shards(self) -> int:
        """Shards of matrices and their optimizer state: the product of the axes that split them."""
        return prod(getattr(self, name) for name, axis in AXIS_RECORDS.items() if axis.state)

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

    @property
    def short_label(self) -> str:
        """The axes above one in one letter each: ``c16 t2``; empty for one device."""
        sizes = zip(AXIS_RECORDS.values(), self.sizes, strict=True)
        return " ".join(f"{axis.letter}{size}" for axis, size in sizes if size > 1)


def _records() -> dict[str, Axis]:
    found = {}
    for name, field in Mesh.model_fields.items():
        (record,) = (item for item in field.metadata if isinstance(item, Axis))
        found[name] = replace(record, name=name)
    return found


AXIS_RECORDS: Mapping[str, Axis] = MappingProxyType(_records())
"""Every axis by name."""
AXES: tuple[AxisName, ...] = tuple(AXIS_RECORDS)

if TYPE_CHECKING:
    AxisName = str
else:
    AxisName = Literal[AXES]

AXIS_WORDS: Mapping[str, str] = MappingProxyType({word: name for name, axis in AXIS_RECORDS.items() for word in axis.aliases})
"""The axis that each alias means."""
AXIS_ORDERS: tuple[tuple[AxisName, ...], ...] = tuple(
    tuple(name for _, name in sorted((axis.places[number], name) for name, axis in AXIS_RECORDS.items() if axis.places))
    for number in range(2)
)
"""Placements: mesh axes from the outermost (crosses nodes first) to the innermost (neighbouring devices)."""
OUTERMOST: tuple[AxisName, ...] = tuple(name for name, axis in AXIS_RECORDS.items() if axis.places is None)
"""Axes outside those of every placement. A mesh without one of them does not name it."""


def letters(*optional: AxisName) -> str:
    """Explain ``Mesh.short_label``, with those of the optional axes that are named.

    >>> letters(), letters("expert")
    ('d data, f fsdp, c context, t tensor', 'd data, f fsdp, c context, t tensor, e expert')
    """
    return ", ".join(f"{axis.letter} {name}" for name, axis in AXIS_RECORDS.items() if name in optional or not axis.optional)


def splitting(dimension: Dimension) -> tuple[AxisName, ...]:
    """Names of the axes that split a dimension.

    >>> splitting("batch")
    ('data', 'fsdp', 'expert')
    """
    return tuple(name for name, axis in AXIS_RECORDS.items() if dimension in axis.splits)
