"""Shapes and counts: every mesh of a shape is counted as if it were made, and large machines stay cheap."""

import itertools
from math import prod

import numpy as np
import pytest

from lcplan.strategy import AXES
from planner.rules import MESH_RULES
from planner.space.analysis import setting_of
from planner.space.count import strategies_of
from planner.space.enumerate import Knobs, mesh_options
from planner.space.meshes import every_mesh, keeping
from planner.space.reject import screen
from planner.space.shapes import Counts, Shapes
from planner.workloads.points import analyse

BACKENDS = ("nccl", "nvshmem")


def weigh(request):
    knobs = Knobs.of(request.filters, BACKENDS, kind=request.hardware.kind)
    return lambda shapes, splits: strategies_of(request, knobs, shapes, splits=splits)


def by_hand(request):
    """Sizes of every mesh, by trying all."""
    most, exact = request.hardware.devices, request.devices
    axes = 5 if request.model.experts is not None else 4
    sizes = itertools.product(range(1, most + 1), repeat=axes)
    return {(*mesh, *(1,) * (5 - axes)) for mesh in sizes if (prod(mesh) == exact if exact else prod(mesh) <= most)}


@pytest.mark.parametrize("fields", [{}, {"devices": 12}, {"mesh": "fsdp=2..4,data=1,3", "batch": 24}, {"mesh": "context=4,5"}])
def test_all_meshes_are_made_once(ask, fields):
    request = ask("llama-tiny", "dgx-h100x2", seq=1024, **{"batch": 8, **fields})
    found = [tuple(mesh) for mesh in every_mesh(request)[:, : len(AXES)].tolist()]
    filters = request.filters.mesh
    wanted = {
        mesh
        for mesh in by_hand(request)
        if all(axis not in filters or filters[axis].allows(size) for axis, size in zip(AXES, mesh, strict=False))
    }
    assert {mesh[:5] for mesh in found} == wanted
    assert len(found) == len(set(found))


@pytest.mark.parametrize(
    ("model", "hw", "fields"),
    [
        ("llama3-8b", "gb200-nvl72x2", {"devices": 144, "batch": 36}),
        ("llama3-8b", "dgx-h100x4", {"scheme": ("ulysses-ring",), "batch": 32}),
        ("llama3-8b", "dgx-h100x2", {"bidirectional": ("on", "off"), "ulysses": (1, 2), "microbatches": (1, 2, 4)}),
        ("llama3-8b", "gb200-nvl72x2", {"devices": 64, "segment": (0, 32)}),
        ("qwen3-30b-a3b", "dgx-h100x2", {"mesh": "tensor=1,2", "batch": 12}),
        ("llama3-8b", "tpu-v5e-16x2", {"collective_matmul": ("off", "one-way")}),
    ],
)
def test_a_shape_counts_for_the_strategies_of_its_meshes(ask, model, hw, fields):
    request = ask(model, hw, **{"seq": 2**17, "batch": 16, **fields})
    knobs, counts = Knobs.of(request.filters, BACKENDS, kind="gpu"), Counts.of(request)
    shapes = list(counts.shapes())
    total = sum(int(strategies_of(request, knobs, shape, splits=counts.split_counts()).sum()) for shape in shapes)
    meshes = every_mesh(request)
    assert total == sum(mesh_options(request, knobs, tuple(mesh)).points for mesh in meshes.tolist())


def test_kept_and_rejected_meshes_are_those_of_the_whole_list(ask):
    request = ask(hw="gb200-nvl72x2", batch=48)
    setting, every = setting_of(request), every_mesh(request)
    screened = keeping(request, setting, MESH_RULES, weigh=weigh(request))
    from planner.space.meshes import mesh_table

    valid = every[screen(setting, MESH_RULES, mesh_table(every)) < 0]
    assert {tuple(mesh) for mesh in screened.meshes.tolist()} == {tuple(mesh) for mesh in valid.tolist()}
    knobs = Knobs.of(request.filters, BACKENDS, kind="gpu")
    points = sum(mesh_options(request, knobs, tuple(mesh)).points for mesh in every.tolist())
    kept = sum(mesh_options(request, knobs, tuple(mesh)).points for mesh in valid.tolist())
    assert screened.rejected.total == points - kept


def test_shapes_come_in_pieces_that_miss_none(ask, monkeypatch):
    request = ask(hw="dgx-h100x16")
    whole = Shapes(*_columns(Counts.of(request)))
    monkeypatch.setattr("planner.space.shapes.CHUNK_SHAPES", 500)
    pieces = list(Counts.of(request).shapes())
    assert len(pieces) > 3
    assert max(map(len, pieces)) <= 500
    assert sum(map(len, pieces)) == len(whole)
    assert np.array_equal(np.concatenate([piece.devices for piece in pieces]), whole.devices)


def _columns(counts):
    [whole] = counts.shapes()
    return whole.ranks, whole.sizes


@pytest.mark.parametrize(
    ("hw", "devices", "segments"),
    [
        ("gb200-nvl72x16", 1024, {64}),
        ("gb200-nvl72x16", 1152, {0}),
        ("gb200-nvl72x16", 144, {0, 48}),
        ("gb300-nvl72x2", 128, {64}),
        ("gb200-nvl72x16:32", 128, {32}),
        ("dgx-h100x4", 32, {0}),
        ("tpu-v5p-512x4", 512, {0}),
    ],
)
def test_segments_that_are_priced(ask, hw, devices, segments):
    table = analyse(ask("llama3-8b", hw, seq=2**17, batch=1152, devices=devices), ("nccl",)).table
    assert set(table.segment.tolist()) == segments


def test_every_count_up_to_the_machine_has_segments(ask):
    table = analyse(ask("llama3.1-405b", "gb200-nvl72x16", seq=2**17, batch=1024), ("nccl",)).table
    assert {128, 256, 512, 1024} <= set(table.devices.tolist())
    assert set(table.segment[table.devices <= 72].tolist()) == {0}


def test_a_large_space_counts_device_counts_that_cannot_win(ask, monkeypatch):
    request = ask("llama3-8b", "gb200-nvl72x16", seq=2**17, batch=1024)
    whole = analyse(request, BACKENDS)
    monkeypatch.setattr("planner.workloads.train.MOST_POINTS", 1000)
    bounded = analyse(request, BACKENDS)
    assert bounded.enumerated == whole.enumerated
    assert len(bounded.table) < len(whole.table) / 2
    first, second = next(bounded.survivors()), next(whole.survivors())
    assert (first.strategy, first.estimate) == (second.strategy, second.estimate)
    message = bounded.rejected.example(bounded.setting, "few-devices")
    assert "devices the model's FLOPs take" in message
    fewer = analyse(request.model_copy(update={"objective": "tokens_per_s_per_device"}), BACKENDS)
    assert "few-devices" not in fewer.rejected.counts
