"""Meshes that keep the rules, made from the shapes that keep them; the other meshes are counted and not made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable, default_columns
from lcplan.strategy import AXES
from planner.request.request import SearchRequest
from planner.rules import Rule
from planner.space.count import segment_choices
from planner.space.enumerate import PLACED
from planner.space.reject import Rejected, Tally, screen
from planner.space.shapes import BATCH_AXES, Counts, Ints, Shapes

Splits = tuple[Ints, Ints]
"""Splits of each number of ranks over the batch axes, and those of them with fsdp 1 (``Counts.split_counts``)."""
Weigh = Callable[[Shapes, Splits], Ints]
"""How many strategies all meshes of each shape have together, shape ``[n]``."""


@dataclass(frozen=True)
class Screened:
    """The meshes that keep some rules, shape ``[meshes, axes + 1]`` in the order of ``PLACED``, and the count of the others."""

    meshes: Ints
    rejected: Rejected

    def without(self, rule: Rule, setting: Setting, counts: Ints) -> Screened:
        """The meshes that keep a further rule; ``counts`` has the strategies of each mesh."""
        tally, table = Tally((rule,)), mesh_table(self.meshes)
        broken = screen(setting, (rule,), table)
        tally.add(broken, table, counts)
        return Screened(self.meshes[broken < 0], self.rejected.then(tally.result()))


def mesh_table(meshes: Ints) -> StrategyTable:
    """Meshes as rows, sizes in the order of ``PLACED``, with every other knob at its default."""
    placed = {name: meshes[:, index].astype(np.int64) for index, name in enumerate(PLACED)}
    return StrategyTable(**default_columns(len(meshes)) | placed)


def every_mesh(request: SearchRequest, most_devices: int | None = None) -> Ints:
    """All meshes of a request, whatever rules they break: for small machines, since it makes every one."""
    setting = Setting(request.model, request.hardware, request.workload, request.budget_bytes)
    return keeping(request, setting, (), most_devices=most_devices).meshes


def keeping(
    request: SearchRequest,
    setting: Setting,
    rules: Sequence[Rule],
    *,
    most_devices: int | None = None,
    least_devices: int = 1,
    weigh: Weigh | None = None,
) -> Screened:
    """Return the meshes of a request that keep all of ``rules``, of ``least_devices`` to ``most_devices`` devices.

    A rule that rejects a shape (all its ranks on the data axis) rejects every mesh of it: rules are about divisors, which one
    large axis has fewest of to keep. So a shape is screened first, and only the meshes of shapes that pass are made.

    Parameters
    ----------
    weigh
        Where it is given, the rejected strategies are counted by rule, each with an example; else they are not counted.
    """
    counts, tally = Counts.of(request, most_devices, least_devices=least_devices), Tally(tuple(rules))
    splits = counts.split_counts() if weigh else None
    found = [np.empty((0, len(PLACED)), dtype=np.int64)]
    for shapes in counts.shapes():
        table = _shape_table(shapes)
        broken = screen(setting, rules, table)
        if weigh and splits:
            tally.add(broken, table, weigh(shapes, splits))
        found.append(_meshes(request, counts, shapes.take(broken < 0)))
    meshes = np.concatenate(found)
    table = mesh_table(meshes)
    broken = screen(setting, rules, table)
    if weigh:
        tally.add(broken, table, weights(weigh, meshes))
    return Screened(meshes[broken < 0], tally.result())


def _shape_table(shapes: Shapes) -> StrategyTable:
    """Shapes as rows: all ranks on the first axis of the batch."""
    one = np.broadcast_to(np.int64(1), len(shapes))
    batch = {axis: one if place else shapes.ranks for place, axis in enumerate(BATCH_AXES)}
    return StrategyTable(**default_columns(len(shapes)) | batch | dict(shapes.sizes))


def _meshes(request: SearchRequest, counts: Counts, shapes: Shapes) -> Ints:
    """Every mesh of some shapes with every segment."""
    if not len(shapes):
        return np.empty((0, len(PLACED)), dtype=np.int64)
    splits = [counts.splits(ranks) for ranks in shapes.ranks.tolist()]
    pairs = zip(shapes.devices.tolist(), shapes.sizes["tensor"].tolist(), strict=True)
    segments = [segment_choices(request, devices, tensor) for devices, tensor in pairs]
    blocks = np.concatenate([np.repeat(own, len(sizes), axis=0) for own, sizes in zip(splits, segments, strict=True)])
    row = np.repeat(np.arange(len(shapes)), [len(own) * len(sizes) for own, sizes in zip(splits, segments, strict=True)])
    columns = {axis: blocks[:, place] for place, axis in enumerate(BATCH_AXES)}
    columns |= {axis: column[row] for axis, column in shapes.sizes.items()}
    columns["segment"] = np.concatenate([np.tile(sizes, len(own)) for own, sizes in zip(splits, segments, strict=True)])
    return np.stack([columns[name] for name in PLACED], axis=1).astype(np.int64)


def weights(weigh: Weigh, meshes: Ints) -> Ints:
    """How many strategies each mesh has with its own segment: the count of its shape, if it were the shape's only mesh."""
    sizes = {name: meshes[:, index] for index, name in enumerate(PLACED)}
    ranks = np.prod([sizes[axis] for axis in BATCH_AXES], axis=0)
    shapes = Shapes(ranks, {axis: sizes[axis] for axis in AXES if axis not in BATCH_AXES}, sizes["segment"])
    one = np.ones(int(ranks.max(initial=0)) + 1, dtype=np.int64)
    with_fsdp, without = weigh(shapes, (one, 0 * one)), weigh(shapes, (one, one))
    return np.where(sizes["fsdp"] > 1, with_fsdp, without)
