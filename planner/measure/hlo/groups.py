"""Map the device groups of a collective to the mesh axes that it runs over."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import Literal

from lcplan.strategy import AXES

Groups = tuple[tuple[int, ...], ...]
Level = Literal["domain", "network"]

_IOTA = re.compile(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH = re.compile(r"mesh\[([^\]]*)\](?:, device_ids=\((.*?)\))? \{([^}]*)\}")
_ORDERED = re.compile(r"\[([\d,]+)\](?:T\(([\d,]+)\))?")
_SUB_AXIS = re.compile(r"'?([^':]+)'?(?::\((\d+)\)(\d+))?'?")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


def _transposed(sizes: Sequence[int], order: Sequence[int]) -> list[int]:
    """0..n-1 in the shape ``sizes``, axes put in ``order``, read row by row."""
    strides = [prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    return [
        sum(index * strides[axis] for index, axis in zip(place, order, strict=True))
        for place in product(*(range(sizes[axis]) for axis in order))
    ]


def _rows(flat: Sequence[int], width: int) -> Groups:
    return tuple(tuple(flat[i : i + width]) for i in range(0, len(flat), width))


def iota_groups(sizes: Sequence[int], order: Sequence[int], *, width: int) -> Groups:
    """XLA's compact form: 0..n-1 in the shape ``sizes``, dims put in ``order`` (empty: as they are), a group of each ``width``.

    >>> iota_groups((2, 2), (1, 0), width=2)
    ((0, 2), (1, 3))
    """
    return _rows(_transposed(sizes, order or range(len(sizes))), width)


def _iota(match: re.Match[str]) -> Groups:
    return iota_groups(_numbers(match[2]), _numbers(match[3] or ""), width=_numbers(match[1])[-1])


def _device_ids(text: str) -> Sequence[int]:
    """The mesh's devices: listed (``0,2,1,3``), or 0..n-1 in a shape whose dims are put in another order (``[2,2]T(1,0)``)."""
    if match := _ORDERED.match(text):
        sizes = _numbers(match[1])
        return _transposed(sizes, _numbers(match[2]) if match[2] else range(len(sizes)))
    return _numbers(text)


def _mesh(match: re.Match[str]) -> Groups:
    """XLA's named form: ``mesh['a'=2,'b'=4] {'b'}``, an axis may be cut: ``'b':(1)2`` is its first factor of two."""
    pairs = [part.split("=") for part in match[1].split(",")]
    sizes = {name.strip(" '"): int(size) for name, size in pairs}
    wanted = [_SUB_AXIS.fullmatch(part.strip()) for part in match[3].split(",")] if match[3].strip() else []
    dims: list[tuple[int, bool]] = []
    for name, size in sizes.items():
        cuts = sorted((int(w[2] or 1), int(w[3] or size)) for w in wanted if w and w[1] == name)
        done = 1
        for before, width in cuts:
            dims += [(before // done, False), (width, True)]
            done = before * width
        dims.append((size // done, False))
    order = [i for i, dim in enumerate(dims) if not dim[1]] + [i for i, dim in enumerate(dims) if dim[1]]
    flat = _transposed([dim[0] for dim in dims], order)
    if match[2]:
        ids = _device_ids(match[2])
        flat = [ids[i] for i in flat]
    return _rows(flat, prod(dim[0] for dim in dims if dim[1]))


def replica_groups(attributes: str, devices: int) -> Groups | None:
    """The groups of ``replica_groups=``, in any of XLA's three forms; None where there is no such attribute.

    >>> replica_groups("replica_groups={{0,1},{2,3}}", 4)
    ((0, 1), (2, 3))
    >>> replica_groups("replica_groups=[2,2]<=[2,2]T(1,0)", 4)
    ((0, 2), (1, 3))
    >>> replica_groups("replica_groups=mesh['a'=2,'b'=2] {'a'}", 4)
    ((0, 2), (1, 3))
    """
    start = attributes.find("replica_groups=")
    if start < 0:
        return None
    text = attributes[start + len("replica_groups=") :]
    if match := _IOTA.match(text):
        return _iota(match)
    if match := _MESH.match(text):
        return _mesh(match)
    listed = re.match(r"\{((?:\{[\d,]*\},?)*)\}", text)
    groups = tuple(_numbers(group) for group in re.findall(r"\{([\d,]*)\}", listed[1])) if listed else ()
    return groups or (tuple(range(devices)),)


def source_target_pairs(attributes: str) -> Groups | None:
    """The (source, target) pairs of a collective-permute."""
    match = re.search(r"source_target_pairs=\{((?:\{\d+,\d+\},?)*)\}", attributes)
    return tuple(_numbers(pair) for pair in re.findall(r"\{(\d+,\d+)\}", match[1])) if match else None


@dataclass(frozen=True)
class MeshView:
    """Mesh axes from the outermost to the innermost: partition i of the executable is the i-th device of the mesh."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    segment: int = 0
    """Devices of each domain, which fill one after the other; 0: the job is in one domain."""

    def level(self, groups: Groups) -> Level | None:
        """Whether every group is in one domain, or one of them crosses the network; None for a job in one domain.

        >>> MeshView(("data", "tensor"), (2, 2), segment=2).level(((0, 2), (1, 3)))
        'network'
        """
        if not self.segment:
            return None
        inside = all(len({device // self.segment for device in group}) == 1 for group in groups)
        return "domain" if inside else "network"

    @property
    def devices(self) -> int:
        """Product of the sizes."""
        return prod(self.sizes)

    def place(self, device: int) -> tuple[int, ...]:
        """Return the index of a device along each axis."""
        place = []
        for size in reversed(self.sizes):
            device, index = divmod(device, size)
            place.append(index)
        return tuple(reversed(place))

    def label(self, moving: Iterable[str]) -> str:
        """Axis names joined in the order of the strategy's words; ``?`` for none."""
        known = [axis for axis in AXES if axis in self.names]
        order = [*known, *(name for name in self.names if name not in known)]
        chosen = set(moving)
        return "+".join(name for name in order if name in chosen) or "?"

    def moving(self, devices: Sequence[int]) -> tuple[str, ...]:
        """The axes along which these devices differ."""
        places = [self.place(device) for device in devices]
        return tuple(name for i, name in enumerate(self.names) if len({place[i] for place in places}) > 1)

    def axis_of_groups(self, groups: Groups) -> str:
        """The axes whose full product every group is; ``context/4`` for groups of four neighbours on an axis; else ``?``.

        A program for several TPU slices has the groups of one slice.

        >>> MeshView(("data", "tensor"), (2, 2)).axis_of_groups(((0, 2), (1, 3)))
        'data'
        """
        return _axis_of_groups(self, groups)

    def axis_of_pairs(self, pairs: Groups) -> str:
        """The axes along which any message of a permute moves."""
        return _axis_of_pairs(self, pairs)


@lru_cache(maxsize=1024)  # an executable for thousands of devices repeats few lists, each of thousands of numbers
def _axis_of_groups(mesh: MeshView, groups: Groups) -> str:
    moving = mesh.moving(groups[0])
    width = prod(size for name, size in zip(mesh.names, mesh.sizes, strict=True) if name in moving)
    seen = {device for group in groups for device in group}
    whole = len(seen) == sum(len(group) for group in groups) and len(seen) in (mesh.devices, mesh.segment)
    alike = all(len(group) == len(groups[0]) and mesh.moving(group) == moving for group in groups)
    if not (whole and alike):
        return "?"
    if len(groups[0]) == width:
        return mesh.label(moving)
    return f"{mesh.label(moving)}/{len(groups[0])}" if _neighbours(mesh, groups, moving) else "?"


def _neighbours(mesh: MeshView, groups: Groups, moving: tuple[str, ...]) -> bool:
    """Whether groups along one axis are equal runs of it."""
    if len(moving) != 1:
        return False
    axis, size = mesh.names.index(moving[0]), len(groups[0])
    return all(len({mesh.place(device)[axis] // size for device in group}) == 1 for group in groups)


@lru_cache(maxsize=1024)
def _axis_of_pairs(mesh: MeshView, pairs: Groups) -> str:
    return mesh.label(name for pair in pairs for name in mesh.moving(pair))
