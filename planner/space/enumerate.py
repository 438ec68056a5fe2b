"""The knobs of a mesh: every strategy of some meshes, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_models.inputs.table import CODES, StrategyTable
from lcplan.formats.nearest import divisors
from lcplan.spec.model import ModelSpec
from lcplan.spec.segments import one_domain
from lcplan.strategy import AXES, AXIS_ORDERS, GROUP_SCHEMES, RING_SCHEMES, STEP_KNOBS, Mesh, Value
from planner.request.filters import Filters
from planner.request.request import SearchRequest
from planner.space.shapes import Ints
from planner.trainers import trainer

LOSS_CHUNK_TARGETS = (1024, 4096)
"""Tokens a loss chunk aims at: small keeps logits small, large keeps the head's matmul efficient."""

Way = tuple[str, int, str]
"""How context moves keys and values: the scheme, how many neighbours exchange heads, whether the ring has two directions."""
WAY = ("scheme", "ulysses", "bidirectional")
"""The knobs of a way."""
PLACED = (*AXES, "segment")
"""Columns of a mesh: the sizes of its axes, and the devices that it uses of each domain."""


@dataclass(frozen=True)
class Knobs:
    """The values of each knob that a request allows on any mesh; ``MeshOptions`` has the values that depend on the mesh."""

    values: tuple[tuple[Value, ...], ...]
    """Values of each knob, in the order of ``STEP_KNOBS``."""

    @classmethod
    def of(cls, filters: Filters, backends: tuple[str, ...], *, kind: str) -> Knobs:
        """A filter's values where it has any, else all that the grid covers on this ``kind`` of device."""
        real: dict[str, tuple[Value, ...]] = {"backend": backends}
        grid = {name: real.get(name, knob.grid_values(kind)) for name, knob in STEP_KNOBS.items()}
        return cls(tuple(getattr(filters, name) or values for name, values in grid.items()))

    def __getitem__(self, name: str) -> tuple[Any, ...]:
        return self.values[_NUMBER[name]]


_NUMBER = {name: number for number, name in enumerate(STEP_KNOBS)}


@dataclass(frozen=True)
class MeshOptions:
    """The knob values of one mesh; their product is the mesh's share of the space."""

    ways: tuple[Way, ...]
    axis_order: tuple[int, ...]
    values: tuple[tuple[str, tuple[Any, ...]], ...]
    """Values, by name, of every knob that no attention choice covers."""

    def __getitem__(self, name: str) -> tuple[Any, ...]:
        return next(values for known, values in self.values if known == name)

    @property
    def points(self) -> int:
        """Number of strategies on this mesh."""
        return len(self.ways) * len(self.axis_order) * prod(len(values) for _, values in self.values)


def mesh_options(request: SearchRequest, knobs: Knobs, mesh: tuple[int, ...]) -> MeshOptions:
    """Which knob values make different programs on one mesh, its sizes in the order of ``PLACED`` (with or without segment).

    Without a context axis every scheme is the same program, so one represents all, and a knob whose axis is 1 keeps its
    default; placements differ only where the job spans several domains and both middle axes are there.
    """
    sizes = Mesh(**dict(zip(AXES, mesh, strict=False)))
    share, rest = divmod(request.workload.global_batch, sizes.batch_ranks)
    decided: dict[str, tuple[Value, ...]] = {
        "microbatches": request.filters.microbatches or divisors(share if rest == 0 else 1),
        "loss_chunk_tokens": request.filters.loss_chunk_tokens or loss_options(request, sizes.context),
    }
    for name, knob in STEP_KNOBS.items():
        if knob.axis and getattr(sizes, knob.axis) == 1:
            decided[name] = (knob.default,)
    return MeshOptions(
        ways=_ways(request, knobs, mesh),
        axis_order=_axis_orders(request, mesh),
        values=tuple((name, decided.get(name, knobs[name])) for name in STEP_KNOBS if name not in (*WAY, "segment")),
    )


def _ways(request: SearchRequest, knobs: Knobs, mesh: tuple[int, ...]) -> tuple[Way, ...]:
    """Schemes, each with the sizes of exchange that it has on a mesh and the directions of its ring."""
    context, tensor = mesh[AXES.index("context")], mesh[AXES.index("tensor")]
    if context == 1:
        return ((knobs["scheme"][0], 1, "off"),)
    given = request.filters.ulysses
    found: list[Way] = []
    for scheme in knobs["scheme"]:
        sizes = given or _exchanges(request.model, context=context, tensor=tensor) if scheme in GROUP_SCHEMES else (1,)
        if scheme not in GROUP_SCHEMES and given and 1 not in given:
            continue
        if not sizes and knobs["scheme"] == (scheme,):
            sizes = (1,)  # nothing else was asked for: a rule says why there is none
        turns = knobs["bidirectional"] if scheme in RING_SCHEMES or knobs["bidirectional"] == ("on",) else ("off",)
        found += [(scheme, size, turn) for size in sizes for turn in turns]
    return tuple(found)


def _exchanges(model: ModelSpec, *, context: int, tensor: int) -> tuple[int, ...]:
    """How many neighbours may exchange heads and leave a ring: divisors of context and of the heads on a rank.

    Without a filter no more than key/value heads: more would send copies of them, which the ring then carries too.
    """
    heads, kv_heads = model.heads // tensor, model.kv_heads // tensor
    return tuple(e for e in divisors(context)[1:-1] if heads % e == 0 and kv_heads >= e and kv_heads % e == 0)


def _axis_orders(request: SearchRequest, mesh: tuple[int, ...]) -> tuple[int, ...]:
    devices, stated = prod(mesh[: len(AXES)]), mesh[len(AXES)] if len(mesh) > len(AXES) else 0
    several = 0 < stated < devices or devices > one_domain(request.hardware)
    both = mesh[AXES.index("fsdp")] > 1 and mesh[AXES.index("context")] > 1
    return tuple(range(len(AXIS_ORDERS))) if several and both else (0,)


def loss_options(request: SearchRequest, context: int) -> tuple[int, ...]:
    """Loss chunks of a context size [tokens]; a trainer without a chunked loss has the logits of all of a rank's tokens."""
    if request.trainer is not None and trainer(request.trainer).whole_loss:
        return (max(1, request.workload.seq_len // context),)
    return _loss_chunks(request.workload.seq_len, context)


@lru_cache(maxsize=4096)
def _loss_chunks(seq_len: int, context: int) -> tuple[int, ...]:
    local = max(1, seq_len // context)
    return tuple(sorted({max(d for d in divisors(local) if d <= target) for target in LOSS_CHUNK_TARGETS}))


def expand(request: SearchRequest, knobs: Knobs, meshes: Ints) -> StrategyTable:
    """Every strategy of the given meshes, shape [points] a column."""
    if not len(meshes):
        return StrategyTable.from_strategies([])
    grids = [_grid(mesh_options(request, knobs, tuple(mesh))) for mesh in meshes.tolist()]
    points = [len(grid["remat"]) for grid in grids]
    columns = {name: np.concatenate([grid[name] for grid in grids]) for name in grids[0]}
    columns |= {name: np.repeat(meshes[:, index].astype(np.int64), points) for index, name in enumerate(PLACED)}
    return StrategyTable(**columns)


@lru_cache(maxsize=4096)
def _grid(options: MeshOptions) -> dict[str, NDArray[np.integer]]:
    """The product of all knob values of one mesh; many meshes share one."""
    grid = {"way": np.arange(len(options.ways))}
    grid |= {name: _column(name, values) for name, values in options.values}
    grid["axis_order"] = np.array(options.axis_order, dtype=np.int64)
    shaped = dict(zip(grid, (column.ravel() for column in np.meshgrid(*grid.values(), indexing="ij")), strict=True))
    way = shaped.pop("way")
    parts = zip(*options.ways, strict=True) if options.ways else ((), (), ())
    shaped |= {name: _column(name, values)[way] for name, values in zip(WAY, parts, strict=True)}
    return {name: column.astype(np.int8 if name in CODES else np.int64) for name, column in shaped.items()}


def _column(name: str, values: tuple[Any, ...]) -> Ints:
    """Values of a knob as a column holds them: numbers, or codes of names."""
    known = CODES.get(name)
    return np.array([known.index(value) for value in values] if known else values, dtype=np.int64)
