"""Replica groups in each of XLA's forms, and the mesh axes that they are."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.measure.hlo.groups import MeshView, replica_groups, source_target_pairs

NAMES = ("data", "fsdp", "context", "expert", "tensor")


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("{{0,1},{2,3}}", ((0, 1), (2, 3))),
        ("{}", ((0, 1, 2, 3),)),
        ("[2,2]<=[4]", ((0, 1), (2, 3))),
        ("[2,2]<=[2,2]T(1,0)", ((0, 2), (1, 3))),
        ("mesh['x'=2,'y'=2] {'y'}", ((0, 1), (2, 3))),
        ("mesh['x'=2,'y'=2] {'x'}", ((0, 2), (1, 3))),
        ("mesh[x=2,y=2] {x,y}", ((0, 1, 2, 3),)),
        ("mesh['x'=4] {'x':(1)2}", ((0, 2), (1, 3))),  # the first factor of two of x strides by two
        ("mesh['x'=4] {'x':(2)2}", ((0, 1), (2, 3))),
        ("mesh['x'=2,'y'=2], device_ids=(0,2,1,3) {'y'}", ((0, 2), (1, 3))),
        ("mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)) {'y'}", ((0, 2), (1, 3))),
    ],
)
def test_each_form_of_replica_groups(text: str, groups: tuple[tuple[int, ...], ...]) -> None:
    assert replica_groups(f"channel_id=1, replica_groups={text}, use_global_device_ids=true", 4) == groups


def test_three_dims_transposed() -> None:
    # 0..7 as 2x2x2 with axes (2,0,1): the last axis is outermost, so each row of four has one parity
    assert replica_groups("replica_groups=[2,4]<=[2,2,2]T(2,0,1)", 8) == ((0, 2, 4, 6), (1, 3, 5, 7))


def test_no_groups_and_pairs() -> None:
    assert replica_groups("channel_id=1", 4) is None
    assert source_target_pairs("channel_id=1, source_target_pairs={{0,1},{1,0}}, x=1") == ((0, 1), (1, 0))
    assert source_target_pairs("channel_id=1") is None


@given(sizes=st.tuples(*[st.integers(1, 3)] * 5), chosen=st.sets(st.sampled_from(NAMES), min_size=1))
def test_groups_along_axes_are_named_by_them(sizes: tuple[int, ...], chosen: set[str]) -> None:
    mesh = MeshView(NAMES, sizes)
    strides = [prod(sizes[i + 1 :]) for i in range(5)]
    fixed = [range(size) if name not in chosen else range(1) for name, size in zip(NAMES, sizes, strict=True)]
    moving = [range(size) if name in chosen else range(1) for name, size in zip(NAMES, sizes, strict=True)]
    groups = tuple(
        tuple(sum((a + b) * stride for a, b, stride in zip(base, place, strides, strict=True)) for place in product(*moving))
        for base in product(*fixed)
    )
    order = ("data", "fsdp", "context", "tensor", "expert")
    names = [n for n in order if n in chosen and sizes[NAMES.index(n)] > 1]
    assert mesh.axis_of_groups(groups) == ("+".join(names) or "?")


def test_labels_follow_the_words_order_not_the_placement() -> None:
    mesh = MeshView(("data", "context", "fsdp", "expert", "tensor"), (1, 2, 2, 1, 1))
    assert mesh.axis_of_groups(((0, 1, 2, 3),)) == "fsdp+context"


@pytest.mark.parametrize(
    "groups",
    [
        ((0, 1),),  # half of the devices only
        ((0, 3), (1, 2)),  # no axis joins these
        ((0, 1), (2, 3), (0, 1)),  # a device twice
        ((0, 1, 2), (3,)),  # uneven
    ],
)
def test_groups_that_are_no_axis(groups: tuple[tuple[int, ...], ...]) -> None:
    assert MeshView(("data", "tensor"), (2, 2)).axis_of_groups(groups) == "?"


def test_pairs_move_along_the_axes_whose_place_changes() -> None:
    mesh = MeshView(("fsdp", "context", "tensor"), (2, 2, 2))
    assert mesh.axis_of_pairs(((0, 2), (2, 0))) == "context"
    assert mesh.axis_of_pairs(((0, 1), (1, 2), (2, 3), (3, 0))) == "context+tensor"
    assert mesh.axis_of_pairs(((0, 0),)) == "?"


def test_a_program_for_several_slices_has_the_groups_of_one():
    slices = MeshView(("data", "fsdp", "tensor"), (2, 4, 2), segment=8)
    groups = ((0, 2, 4, 6), (1, 3, 5, 7))
    assert (slices.axis_of_groups(groups), slices.level(groups)) == ("fsdp", "domain")
    assert slices.axis_of_groups(((0, 2, 4, 6),)) == "?", "a group is missing"
    across = tuple((place, place + 8) for place in range(8))
    assert (slices.axis_of_groups(across), slices.level(across)) == ("data", "network")
    assert MeshView(("data", "fsdp", "tensor"), (2, 4, 2)).level(across) is None, "one domain has one level"
