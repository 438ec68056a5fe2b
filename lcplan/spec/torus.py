"""Blocks of a TPU slice: which chips a job on a part of it gets."""

from __future__ import annotations

from itertools import product
from math import prod


def sub_torus(chips: int, torus: tuple[int, ...]) -> tuple[int, ...] | None:
    """The block of ``chips`` chips inside a torus that a job would get: most cubic, then on fewest hosts, short sides first.

    >>> sub_torus(8, (4, 4, 2)), sub_torus(4, (4, 4, 4))
    ((2, 2, 2), (2, 2, 1))
    >>> sub_torus(7, (4, 4, 2)) is None
    True
    """
    sizes = [[n for n in range(1, side + 1) if chips % n == 0] for side in torus]
    blocks = [block for block in product(*sizes) if prod(block) == chips]
    return min(blocks, key=lambda block: (sum(block), -prod(host_bounds(block)), block), default=None)


def host_bounds(block: tuple[int, ...]) -> tuple[int, int, int]:
    """Chips that one host holds of a block, along each side: up to 2 x 2 x 1 (libtpu's default), 1 along an odd side."""
    x, y, *_ = (*block, 1)
    return 2 if x % 2 == 0 else 1, 2 if y % 2 == 0 else 1, 1
