"""The space: every strategy of a request, as columns. Meshes first, rules on meshes, then the knobs of what is left."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from cost_models.inputs.table import CODES, StrategyTable
from lcplan.spec.model import ModelSpec
from lcplan.strategy import AXES, AXIS_ORDERS, HOST_ATTENTION_BLOCK, MOE_DISPATCHES, MOE_ROOM_PERCENT, RING_SCHEMES, SCHEMES
from lcplan.strategy.remat import GRID_POLICIES, OFFLOAD_PERCENT
from planner.request.filters import AxisFilter, Filters
from planner.request.request import SearchRequest
from planner.trainers import trainer

LOSS_CHUNK_TARGETS = (1024, 4096)
"""Tokens a loss chunk aims at: small keeps logits small, large keeps the head's matmul efficient."""

Ints = NDArray[np.int64]
Way = tuple[str, int, str]
"""How context moves keys and values: the scheme, how many neighbours exchange heads, whether the ring has two directions."""


@dataclass(frozen=True)
class Knobs:
    """The values of each knob that a request lets in, besides those that depend on the mesh."""

    scheme: tuple[str, ...]
    remat: tuple[str, ...]
    backend: tuple[str, ...]
    collective_matmul: tuple[str, ...]
    gather_dtype: tuple[str, ...]
    reduce_dtype: tuple[str, ...]
    moments_dtype: tuple[str, ...]
    sharding_mode: tuple[str, ...]
    scheduler: tuple[str, ...]
    bidirectional: tuple[str, ...]
    moe_dispatch: tuple[str, ...]
    moe_room_percent: tuple[int, ...]
    attention_block: tuple[int, ...]
    offload_percent: tuple[int, ...]

    @classmethod
    def of(cls, filters: Filters, backends: tuple[str, ...], *, kind: str) -> Knobs:
        """A filter's values where it has any, else all that the grid covers on this ``kind`` of device."""
        return cls(
            scheme=filters.scheme or SCHEMES,
            remat=filters.remat or GRID_POLICIES,
            backend=filters.backend or backends,
            collective_matmul=filters.collective_matmul or ("off",),
            gather_dtype=filters.gather_dtype or ("bf16",),
            reduce_dtype=filters.reduce_dtype or ("fp32",),
            moments_dtype=filters.moments_dtype or ("fp32",),
            sharding_mode=filters.sharding_mode or ("manual",),
            scheduler=filters.scheduler or ("default",),
            bidirectional=filters.bidirectional or ("off",),
            moe_dispatch=filters.moe_dispatch or MOE_DISPATCHES[:1],
            moe_room_percent=filters.moe_room_percent or (MOE_ROOM_PERCENT,),
            attention_block=filters.attention_block or (HOST_ATTENTION_BLOCK if kind == "cpu" else 0,),
            offload_percent=filters.offload_percent or (OFFLOAD_PERCENT,),
        )


def mesh_sizes(request: SearchRequest, most_devices: int | None = None) -> Ints:
    """Every mesh of the request, shape [meshes, 5] in the order of ``AXES``; with ``most_devices``, of at most so many.

    All ordered factorisations of every device count that is let in. A dense model has no expert axis, unless the request asks
    for one, so that a rule can say why not; of a mixture of experts every size is a row that divides its experts.
    """
    first = request.devices or 1
    last = request.devices or min(most_devices or request.hardware.devices, request.hardware.devices)
    meshes = _meshes(first, last, request.model.experts is not None or "expert" in request.filters.mesh)
    keep = np.ones(len(meshes), dtype=bool)
    for axis, allowed in request.filters.mesh.items():
        keep &= _in_filter(meshes[:, AXES.index(axis)], allowed)
    return meshes[keep]


@lru_cache(maxsize=64)
def _meshes(first: int, last: int, expert: bool) -> Ints:
    parts = 5 if expert else 4
    rows = np.array([mesh for count in range(first, last + 1) for mesh in _factorisations(count, parts)], dtype=np.int64)
    rows = rows.reshape(-1, parts)
    return rows if expert else np.concatenate([rows, np.ones((len(rows), 1), np.int64)], axis=1)


def _in_filter(column: Ints, allowed: AxisFilter) -> NDArray[np.bool_]:
    inside = np.zeros(len(column), dtype=bool)
    for low, high in allowed.intervals:
        inside |= (column >= low) & (column <= high)
    return inside


@lru_cache(maxsize=4096)
def _factorisations(count: int, parts: int) -> tuple[tuple[int, ...], ...]:
    if parts == 1:
        return ((count,),)
    return tuple((first, *rest) for first in divisors(count) for rest in _factorisations(count // first, parts - 1))


@lru_cache(maxsize=65536)
def divisors(number: int) -> tuple[int, ...]:
    """All divisors, ascending.

    >>> divisors(12)
    (1, 2, 3, 4, 6, 12)
    """
    low = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return tuple(sorted({*low, *(number // d for d in low)}))


@dataclass(frozen=True)
class MeshOptions:
    """The knob values of one mesh; their product is the mesh's share of the space."""

    ways: tuple[Way, ...]
    backend: tuple[str, ...]
    microbatches: tuple[int, ...]
    loss_chunk_tokens: tuple[int, ...]
    axis_order: tuple[int, ...]
    collective_matmul: tuple[str, ...]

    def points(self, knobs: Knobs) -> int:
        """How many strategies this mesh stands for."""
        own = len(self.ways) * len(self.backend) * len(self.microbatches) * len(self.loss_chunk_tokens) * len(self.axis_order)
        shared = len(knobs.remat) * len(knobs.gather_dtype) * len(knobs.reduce_dtype) * len(knobs.moments_dtype)
        shared *= len(knobs.sharding_mode) * len(knobs.scheduler) * len(knobs.moe_dispatch) * len(knobs.moe_room_percent)
        shared *= len(knobs.attention_block) * len(knobs.offload_percent)
        return own * shared * len(self.collective_matmul)


def mesh_options(request: SearchRequest, knobs: Knobs, mesh: tuple[int, ...]) -> MeshOptions:
    """Which knob values make different programs on one mesh.

    Without a context axis every scheme is the same program, so one stands for all, and without a tensor axis no product is
    collective; placements differ only where the job
    spans several domains and both middle axes are there.
    """
    data, fsdp, context, tensor, expert = mesh
    share, rest = divmod(request.workload.global_batch, data * fsdp * expert)
    per_rank = share if rest == 0 else 1
    return MeshOptions(
        ways=_ways(request, knobs, mesh),
        backend=knobs.backend,
        microbatches=request.filters.microbatches or divisors(per_rank),
        loss_chunk_tokens=request.filters.loss_chunk_tokens or _loss_options(request, context),
        axis_order=_axis_orders(request, mesh),
        collective_matmul=knobs.collective_matmul if tensor > 1 else ("off",),
    )


def points_of_each(request: SearchRequest, knobs: Knobs, meshes: Ints) -> Ints:
    """How many strategies each mesh stands for, shape [meshes]: many meshes have the same options, which are made once."""
    if not len(meshes):
        return np.empty(0, dtype=np.int64)
    data, fsdp, context, tensor, expert = meshes.T
    spans = (meshes.prod(axis=1) > request.hardware.domain_size) & (fsdp > 1) & (context > 1)
    decides = np.stack([data * fsdp * expert, context, tensor, spans], axis=1)
    _, first, same = np.unique(decides, axis=0, return_index=True, return_inverse=True)
    points = [mesh_options(request, knobs, tuple(int(size) for size in meshes[row])).points(knobs) for row in first]
    return np.array(points, dtype=np.int64)[same.ravel()]


def _ways(request: SearchRequest, knobs: Knobs, mesh: tuple[int, ...]) -> tuple[Way, ...]:
    """Schemes, each with the sizes of exchange that it has on a mesh and the directions of its ring."""
    context, tensor = mesh[AXES.index("context")], mesh[AXES.index("tensor")]
    if context == 1:
        return ((knobs.scheme[0], 1, "off"),)
    given = request.filters.ulysses
    found: list[Way] = []
    for scheme in knobs.scheme:
        sizes = given or _exchanges(request.model, context=context, tensor=tensor) if scheme == "ulysses-ring" else (1,)
        if scheme != "ulysses-ring" and given and 1 not in given:
            continue
        if not sizes and knobs.scheme == (scheme,):
            sizes = (1,)  # nothing else was asked for: a rule says why there is none
        turns = knobs.bidirectional if scheme in RING_SCHEMES or knobs.bidirectional == ("on",) else ("off",)
        found += [(scheme, size, turn) for size in sizes for turn in turns]
    return tuple(found)


def _exchanges(model: ModelSpec, *, context: int, tensor: int) -> tuple[int, ...]:
    """How many neighbours may exchange heads and leave a ring: divisors of context and of the heads on a rank.

    Without a filter no more than key/value heads: more would send copies of them, which the ring then carries too.
    """
    heads, kv_heads = model.heads // tensor, model.kv_heads // tensor
    return tuple(e for e in divisors(context)[1:-1] if heads % e == 0 and kv_heads >= e and kv_heads % e == 0)


def _axis_orders(request: SearchRequest, mesh: tuple[int, ...]) -> tuple[int, ...]:
    spans_domains = prod(mesh) > request.hardware.domain_size
    both = mesh[AXES.index("fsdp")] > 1 and mesh[AXES.index("context")] > 1
    return tuple(range(len(AXIS_ORDERS))) if spans_domains and both else (0,)


def _loss_options(request: SearchRequest, context: int) -> tuple[int, ...]:
    """A trainer without a chunked loss has the logits of all of a rank's tokens at once."""
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
    grids = [_grid(knobs, mesh_options(request, knobs, tuple(int(size) for size in mesh))) for mesh in meshes]
    points = [len(grid["remat"]) for grid in grids]
    columns = {name: np.concatenate([grid[name] for grid in grids]) for name in grids[0]}
    columns |= {axis: np.repeat(meshes[:, index].astype(np.int64), points) for index, axis in enumerate(AXES)}
    return StrategyTable(**columns)


@lru_cache(maxsize=4096)
def _grid(knobs: Knobs, options: MeshOptions) -> dict[str, NDArray[np.integer]]:
    """The product of all knob values of one mesh; many meshes share one."""
    grid = {
        "way": np.arange(len(options.ways)),
        "remat": _codes("remat", knobs.remat),
        "backend": _codes("backend", options.backend),
        "collective_matmul": _codes("collective_matmul", options.collective_matmul),
        "gather_dtype": _codes("gather_dtype", knobs.gather_dtype),
        "reduce_dtype": _codes("reduce_dtype", knobs.reduce_dtype),
        "moments_dtype": _codes("moments_dtype", knobs.moments_dtype),
        "sharding_mode": _codes("sharding_mode", knobs.sharding_mode),
        "scheduler": _codes("scheduler", knobs.scheduler),
        "moe_dispatch": _codes("moe_dispatch", knobs.moe_dispatch),
        "moe_room_percent": np.array(knobs.moe_room_percent, dtype=np.int64),
        "attention_block": np.array(knobs.attention_block, dtype=np.int64),
        "offload_percent": np.array(knobs.offload_percent, dtype=np.int64),
        "microbatches": np.array(options.microbatches, dtype=np.int64),
        "loss_chunk_tokens": np.array(options.loss_chunk_tokens, dtype=np.int64),
        "axis_order": np.array(options.axis_order, dtype=np.int64),
    }
    shaped = dict(zip(grid, (column.ravel() for column in np.meshgrid(*grid.values(), indexing="ij")), strict=True))
    way = shaped.pop("way")
    schemes, sizes, turns = zip(*options.ways, strict=True) if options.ways else ((), (), ())
    shaped |= {"scheme": _codes("scheme", schemes)[way], "ulysses": np.array(sizes, dtype=np.int64)[way]}
    shaped["bidirectional"] = _codes("bidirectional", turns)[way]
    return {name: column.astype(np.int8 if name in CODES else np.int64) for name, column in shaped.items()}


def _codes(column: str, values: tuple[str, ...]) -> Ints:
    return np.array([CODES[column].index(value) for value in values], dtype=np.int64)
