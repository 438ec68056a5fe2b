"""Blocks of a TPU slice."""

from __future__ import annotations

import pytest

from lcplan.spec.torus import host_bounds, sub_torus


@pytest.mark.parametrize(
    ("chips", "torus", "block"),
    [
        (32, (4, 4, 2), (4, 4, 2)),
        (8, (4, 4, 2), (2, 2, 2)),
        (16, (4, 4, 2), (2, 4, 2)),
        (4, (4, 4, 4), (2, 2, 1)),
        (1, (4, 4), (1, 1)),
        (6, (4, 4, 2), (2, 3, 1)),
        (7, (4, 4, 2), None),
    ],
)
def test_sub_torus(chips: int, torus: tuple[int, ...], block: tuple[int, ...] | None) -> None:
    assert sub_torus(chips, torus) == block


def test_a_host_holds_a_square_of_four_where_edges_are_even() -> None:
    assert (host_bounds((2, 2, 2)), host_bounds((4, 4)), host_bounds((1, 2, 1))) == ((2, 2, 1), (2, 2, 1), (1, 2, 1))
