"""Counts: how many strategies the meshes of a shape have, computed for many shapes at once and without making a mesh."""

from __future__ import annotations

from math import prod

import numpy as np

from lcplan.formats.nearest import divisors
from lcplan.spec.segments import one_domain, segments_of
from lcplan.strategy import AXIS_ORDERS, GROUP_SCHEMES, RING_SCHEMES, STEP_KNOBS
from planner.request.request import SearchRequest
from planner.space.enumerate import WAY, Knobs, loss_options
from planner.space.shapes import Ints, Shapes

OWN_COUNT = (*WAY, "segment", "microbatches", "loss_chunk_tokens")
"""Knobs whose values depend on more of the mesh than whether their axis is above one."""


def segment_choices(request: SearchRequest, devices: int, tensor: int) -> tuple[int, ...]:
    """The segments of a mesh that are worth a row, as the knob's values: 0 for one domain or whole ones.

    A segment spreads the devices evenly and holds whole tensor groups. Without such a segment it is 0, which a rule rejects.
    """
    hardware, given = request.hardware, request.filters.segment
    if given:
        return tuple(dict.fromkeys(given))
    if devices <= one_domain(hardware):
        return (0,)
    whole = [size for size in segments_of(hardware, devices) if size % tensor == 0]
    return tuple(0 if size == hardware.domain_size else size for size in whole) or (0,)


def strategies_of(request: SearchRequest, knobs: Knobs, shapes: Shapes, *, splits: tuple[Ints, Ints]) -> Ints:
    """How many strategies all meshes of each shape have together, shape ``[n]``.

    Parameters
    ----------
    splits
        Splits of each number of ranks, and those of them with fsdp 1 (``Counts.split_counts``).
    """
    every, without_fsdp = (column[shapes.ranks] for column in splits)
    placed, spread = _placements(request, shapes)
    orders = np.where(shapes.sizes["context"] > 1, len(AXIS_ORDERS), 1)
    meshes = (placed + spread) * without_fsdp + (placed + spread * orders) * (every - without_fsdp)
    return np.asarray(meshes * _each(request, knobs, shapes), dtype=np.int64)


def _placements(request: SearchRequest, shapes: Shapes) -> tuple[Ints, Ints]:
    """Segments of each shape with which its meshes are in one domain, and with which they span several."""
    hardware, devices = request.hardware, shapes.devices
    several = devices > one_domain(hardware)
    if shapes.segment is not None:
        spread = np.where(shapes.segment > 0, shapes.segment < devices, several).astype(np.int64)
        return 1 - spread, spread
    given = tuple(dict.fromkeys(request.filters.segment))
    if given:
        spread = np.sum([several if size == 0 else size < devices for size in given], axis=0)
        return len(given) - spread, spread
    counts, row = np.unique(devices, return_inverse=True)
    possible = [segments_of(hardware, int(count)) for count in counts]
    whole = np.zeros(len(devices), dtype=np.int64)
    for place in range(max(map(len, possible), default=0)):
        size = np.array([sizes[place] if place < len(sizes) else 0 for sizes in possible], dtype=np.int64)[row.ravel()]
        whole += (size > 0) & (size % shapes.sizes["tensor"] == 0)
    choices = np.where(several, np.maximum(whole, 1), 1)
    return np.where(several, 0, choices), np.where(several, choices, 0)


def _each(request: SearchRequest, knobs: Knobs, shapes: Shapes) -> Ints:
    """Strategies of one mesh of each shape with one segment and one placement of its axes, shape ``[n]``."""
    product = _ways(request, knobs, shapes) * _microbatches(request, shapes.ranks) * _loss_chunks(request, shapes)
    for axis in ("", *shapes.sizes):
        own = [knob.name for knob in STEP_KNOBS.values() if knob.axis == axis and knob.name not in OWN_COUNT]
        values = prod(len(knobs[name]) for name in own)
        product = product * (values if not axis else np.where(shapes.sizes[axis] > 1, values, 1))
    return np.asarray(product)


def _microbatches(request: SearchRequest, ranks: Ints) -> Ints:
    given, batch = request.filters.microbatches, request.workload.global_batch
    if given:
        return np.full(len(ranks), len(given), dtype=np.int64)
    counts = np.ones(int(ranks.max(initial=0)) + 1, dtype=np.int64)
    for size in divisors(batch):
        if size < len(counts):
            counts[size] = len(divisors(batch // size))
    return counts[ranks]


def _loss_chunks(request: SearchRequest, shapes: Shapes) -> Ints:
    context, given = shapes.sizes["context"], request.filters.loss_chunk_tokens
    if given:
        return np.full(len(context), len(given), dtype=np.int64)
    local, first, row = np.unique(request.workload.seq_len // context, return_index=True, return_inverse=True)
    counts = [len(loss_options(request, int(context[place]))) for place in first]
    return np.array(counts, dtype=np.int64).reshape(len(local))[row.ravel()]


def _ways(request: SearchRequest, knobs: Knobs, shapes: Shapes) -> Ints:
    """The number of ways that ``planner.space.enumerate`` lists on meshes of each shape, shape ``[n]``."""
    context, given, schemes = shapes.sizes["context"], request.filters.ulysses, knobs["scheme"]
    total = np.zeros(len(context), dtype=np.int64)
    for scheme in schemes:
        if scheme not in GROUP_SCHEMES and given and 1 not in given:
            continue
        sizes: Ints | int = 1
        if scheme in GROUP_SCHEMES:
            sizes = len(given) if given else _exchanges(request, shapes)
            sizes = np.maximum(sizes, 1) if schemes == (scheme,) else sizes
        both = scheme in RING_SCHEMES or knobs["bidirectional"] == ("on",)
        total += sizes * (len(knobs["bidirectional"]) if both else 1)
    return np.where(context > 1, total, 1)


def _exchanges(request: SearchRequest, shapes: Shapes) -> Ints:
    """Divisors of context, other than 1 and all of it, that divide the query and the key/value heads of a tensor rank."""
    model, context, tensor = request.model, shapes.sizes["context"], shapes.sizes["tensor"]
    kv_heads = model.kv_heads // tensor
    shared = np.gcd(context, np.gcd(model.heads // tensor, kv_heads))
    counts = np.array([len(divisors(number)) for number in range(1, model.kv_heads + 1)], dtype=np.int64)
    found = counts[np.clip(shared, 1, model.kv_heads) - 1] - 1 - (shared == context)
    return np.where(kv_heads > 0, found, 0)
