"""Shapes: the sizes of a mesh that most rules read, so that the meshes of a shape are counted and only a few are made.

A shape has a size for each axis that does not split the batch, and ``ranks``, the product of the axes that do. The meshes of a
shape differ in how they split its ranks into data, fsdp and expert.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lcplan.formats.nearest import divisors
from lcplan.strategy import AXES, AXIS_RECORDS, splitting
from planner.request.filters import AxisFilter
from planner.request.request import SearchRequest

Ints = NDArray[np.int64]

BATCH_AXES = splitting("batch")
SINGLE_AXES = tuple(axis for axis in AXES if axis not in BATCH_AXES)
"""Axes that a shape has a size of."""
CHUNK_SHAPES = 2**18
"""Shapes that are made at a time: a dozen columns of this many rows take a few tens of MiB."""

Allowed = tuple[tuple[int, int], ...]
"""Sizes of an axis: a union of closed intervals."""
ANY_SIZE: Allowed = ((1, 2**40),)
ONE: Allowed = ((1, 1),)


@dataclass(frozen=True)
class Shapes:
    """Some shapes as columns: the product of the batch axes, and the sizes of the others by name, shape ``[n]`` each."""

    ranks: Ints
    sizes: Mapping[str, Ints]
    segment: Ints | None = None
    """The one segment of each; None: all that are possible."""

    def __len__(self) -> int:
        return len(self.ranks)

    @property
    def devices(self) -> Ints:
        """Devices of each shape."""
        product = self.ranks.copy()
        for column in self.sizes.values():
            product *= column
        return product

    def take(self, rows: NDArray[np.integer] | NDArray[np.bool_]) -> Shapes:
        """The shapes that ``rows`` selects."""
        return Shapes(self.ranks[rows], {axis: column[rows] for axis, column in self.sizes.items()})


@dataclass(frozen=True)
class Counts:
    """The device counts and the sizes of axes that a request lets in."""

    devices: int | None
    """Exactly this many; None: every count up to ``most``."""
    most: int
    allowed: Mapping[str, Allowed]
    least: int = 1

    @classmethod
    def of(cls, request: SearchRequest, most_devices: int | None = None, *, least_devices: int = 1) -> Counts:
        """The counts of a request, of ``least_devices`` to ``most_devices``.

        A dense model has no expert axis, and no model a pipeline, unless the request asks for one; a rule can then explain
        the refusal.
        """
        most = min(most_devices or request.hardware.devices, request.hardware.devices)
        filters: Mapping[str, AxisFilter] = request.filters.mesh
        absent = [name for name, axis in AXIS_RECORDS.items() if axis.optional and name not in request.optional_axes]
        allowed = {axis: filters[axis].intervals if axis in filters else ANY_SIZE for axis in AXES} | dict.fromkeys(absent, ONE)
        return cls(request.devices, request.devices or most, allowed, least_devices)

    def shapes(self) -> Iterator[Shapes]:
        """Every shape, ``CHUNK_SHAPES`` at a time or fewer."""
        sizes = self._singles()
        product = np.ones(1, dtype=np.int64)
        for column in sizes.values():
            product = product * column
        if self.devices is not None:
            yield from self._exact(sizes, product)
            return
        least = -(-self.least // product)
        counts = np.maximum(self.most // product - least + 1, 0)
        ends = np.cumsum(counts)
        start = 0
        while start < len(counts):
            done = int(ends[start - 1]) if start else 0
            end = max(start + 1, int(np.searchsorted(ends, done + CHUNK_SHAPES, side="right")))
            own = counts[start:end]
            row = np.repeat(np.arange(start, end), own)
            ranks = np.arange(len(row), dtype=np.int64) - np.repeat(np.cumsum(own) - own, own) + least[row]
            yield Shapes(ranks, {axis: column[row] for axis, column in sizes.items()})
            start = end

    def _exact(self, sizes: Mapping[str, Ints], product: Ints) -> Iterator[Shapes]:
        yield Shapes(self.most // product, sizes)

    def _singles(self) -> dict[str, Ints]:
        """Every combination of sizes of the axes that do not split the batch, shape ``[combinations]`` each."""
        columns: dict[str, Ints] = {}
        product = np.ones(1, dtype=np.int64)
        for axis in SINGLE_AXES:
            possible = _sizes(self.allowed[axis], self.most)
            if self.devices is not None:
                possible = possible[self.devices % possible == 0]
            row, size = _products(product, possible, self.most)
            if self.devices is not None:
                kept = self.devices % (product[row] * size) == 0
                row, size = row[kept], size[kept]
            columns = {name: column[row] for name, column in columns.items()} | {axis: size}
            product = product[row] * size
        return columns

    def splits(self, ranks: int) -> Ints:
        """Every split of ``ranks`` over the batch axes, shape ``[splits, axes]`` in the order of ``BATCH_AXES``."""
        return _splits(ranks, tuple(self.allowed[axis] for axis in BATCH_AXES))

    def split_counts(self) -> tuple[Ints, Ints]:
        """How many splits each number of ranks has, and how many of them with fsdp 1; shape ``[most + 1]``."""
        without = tuple(_together(self.allowed[axis], ONE) if axis == "fsdp" else self.allowed[axis] for axis in BATCH_AXES)
        return _split_counts(self.most, tuple(self.allowed[axis] for axis in BATCH_AXES)), _split_counts(self.most, without)


def _together(one: Allowed, other: Allowed) -> Allowed:
    """The sizes that both let in."""
    both = [(max(a, c), min(b, d)) for a, b in one for c, d in other]
    return tuple((low, high) for low, high in both if low <= high)


def _products(product: Ints, possible: Ints, most: int) -> tuple[Ints, Ints]:
    """Pairs of a product so far and a further size with at most ``most`` devices: rows of ``product``, and sizes."""
    counts = np.searchsorted(possible, most // product, side="right")
    row = np.repeat(np.arange(len(product)), counts)
    place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    return row, possible[place]


@lru_cache(maxsize=64)
def _sizes(allowed: Allowed, most: int) -> Ints:
    parts = [np.arange(low, min(high, most) + 1, dtype=np.int64) for low, high in allowed]
    return np.unique(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)


@lru_cache(maxsize=16)
def _split_counts(most: int, allowed: tuple[Allowed, ...]) -> Ints:
    """Ways to write each number up to ``most`` as a product of one size of each axis."""
    ways = np.zeros(most + 1, dtype=np.int64)
    if most >= 1:
        ways[1] = 1
    for sizes in allowed:
        further = np.zeros_like(ways)
        for size in _sizes(sizes, most).tolist():
            further[size::size] += ways[1 : most // size + 1]
        ways = further
    return ways


@lru_cache(maxsize=4096)
def _splits(ranks: int, allowed: tuple[Allowed, ...]) -> Ints:
    rows = _factors(ranks, len(allowed))
    kept = [row for row in rows if all(any(a <= n <= b for a, b in sizes) for n, sizes in zip(row, allowed, strict=True))]
    return np.array(kept, dtype=np.int64).reshape(-1, len(allowed))


@lru_cache(maxsize=4096)
def _factors(count: int, parts: int) -> tuple[tuple[int, ...], ...]:
    if parts == 1:
        return ((count,),)
    return tuple((first, *rest) for first in divisors(count) for rest in _factors(count // first, parts - 1))
