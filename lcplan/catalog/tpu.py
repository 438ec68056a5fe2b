"""TPU slices by accelerator type: ``tpu-v5p-64`` is the slice of 64 TensorCores.

An accelerator type counts TensorCores for v4, v5p and 7x (two per chip) and chips for v5e and v6e (one per chip). jax counts a
v4 or v5p chip as one device (both cores as one, "megacore") and a 7x chip as two. Published small shapes are in the data
files; larger slices of v4, v5p and 7x are whole cubes of 4x4x4 chips in the most compact box, as in Google's tables and in
AI-Hypercomputer/maxtext src/maxtext/utils/accelerator_to_spec_map.py.
"""

from __future__ import annotations

import re
from math import prod
from typing import Annotated, Literal

from pydantic import Field

from lcplan.catalog import folder
from lcplan.formats.errors import BadInputError
from lcplan.formats.frozen import Frozen
from lcplan.spec.hardware import Allowance, DeviceSpec, HardwareSpec, Link

CUBE = 4
"""Chips along one edge of a cube, the unit that optical switches join."""
LONGEST_CUBES = 64
"""The longest box of one cube's width and height that the published tables go up to is 4x4x244 chips."""

_TYPE = re.compile(r"(tpu-?)?([a-z0-9]+)-([0-9]{1,7})")
"""An accelerator type as Cloud TPU writes it too: ``v5p-128``, ``v5litepod-16``, ``tpu7x-128``."""
_BOX = re.compile(r"(tpu-?)?([a-z0-9]+)-([0-9]{1,4})x([0-9]{1,4})x([0-9]{1,4})")
"""A topology of three dims in chips, as GKE writes it: ``tpu7x-4x4x4``. Two numbers are a slice and how many of it."""
_ALIASES = {"v5litepod": "v5e", "v5lite": "v5e", "tpu7x": "7x", "v7x": "7x", "v5": "v5p", "v6": "v6e"}


class TpuFamily(Frozen):
    """One TPU generation: everything of a slice that does not depend on its size."""

    name: str
    source: str
    libtpu_name: str
    """The family in libtpu's topology names, before the colon."""
    device: DeviceSpec
    cores_per_chip: Annotated[int, Field(gt=0)]
    """Units of the accelerator type's number in one chip."""
    devices_per_chip: Annotated[int, Field(gt=0)]
    chips_per_host: Annotated[int, Field(gt=0)]
    slices: dict[int, tuple[int, ...]]
    """Published shapes [chips] by the accelerator type's number."""
    cubes: bool
    """Whether slices of whole cubes exist beyond ``slices``."""
    largest_chips: Annotated[int, Field(gt=0)]
    wrap: Literal["cubes", "full-16", "full-32"]
    """Which dims close to a ring: all of them in slices of whole cubes, or those of the pod's 16 or 32 chips."""
    ici_link: Link
    network_link: Link | None = None
    """Between slices; None: slices of this generation cannot be joined."""
    topology_options: dict[str, str | int | bool | tuple[int, ...]] = Field(default_factory=dict)
    allowance: Allowance
    notes: tuple[str, ...] = ()


def family_names() -> tuple[str, ...]:
    """Catalogue names of the TPU generations, for example ``tpu-v5p``."""
    return tuple(name for name in folder.names("hardware") if name.startswith("tpu-"))


def slice_names(family: str) -> tuple[str, ...]:
    """Accelerator types of a generation that are published one by one."""
    return tuple(f"{family}-{number}" for number in sorted(read_family(family).slices))


def read_family(name: str) -> TpuFamily:
    """One generation's data file."""
    return TpuFamily.read(*folder.read("hardware", name))


def find(text: str, slices: int = 1) -> HardwareSpec | None:
    """The hardware of an accelerator type, ``slices`` of it over the data-center network; None if it is not one.

    Raises
    ------
    BadInputError
        No such generation, or no such slice in it.
    """
    match, box = _TYPE.fullmatch(text), _BOX.fullmatch(text)
    found = match or box
    if not found:
        return None
    family = "tpu-" + _ALIASES.get(found[2], found[2])
    if family not in family_names():
        if found[1] is None:
            return None
        raise BadInputError(f"hardware {text!r}: no TPU generation {found[2]!r}; known: {', '.join(family_names())}")
    generation = read_family(family)
    number = int(match[3]) if match else _number(text, generation, tuple(int(edge) for edge in found.groups()[2:]))
    return slice_of(generation, number, slices=slices)


def _number(text: str, family: TpuFamily, shape: tuple[int, ...]) -> int:
    """The accelerator type's number of a topology."""
    number = prod(shape) * family.cores_per_chip
    own = slice_shape(family, number)
    if sorted(own) != sorted(shape):
        box = "x".join(map(str, own))
        raise BadInputError(f"hardware {text!r}: {prod(shape)} chips are {family.name}-{number}, a topology of {box} here")
    return number


def slice_of(family: TpuFamily, number: int, *, slices: int = 1) -> HardwareSpec:
    """The slice of accelerator type ``family-number``; ``slices`` of them are as many domains."""
    shape = slice_shape(family, number)
    chips = prod(shape)
    wrap = wraparound(family, shape)
    options = dict(family.topology_options)
    if slices > 1 and family.network_link is None:
        raise BadInputError(
            f"hardware '{family.name}-{number}x{slices}': slices of {family.name} cannot be joined over the data-center "
            f"network; use a larger slice, up to {family.name}-{max(family.slices)}"
        )
    if slices > 1:
        options["num_slices"] = slices
    if chips < family.chips_per_host:
        options["chips_per_host_bounds"] = (*shape, *(1,) * (3 - len(shape)))
    devices = chips * family.devices_per_chip
    return HardwareSpec(
        name=f"{family.name}-{number}" + (f"x{slices}" if slices > 1 else ""),
        source=family.source,
        kind="tpu",
        device=family.device,
        domain_size=devices,
        node_size=min(devices, family.chips_per_host * family.devices_per_chip),
        domains=slices,
        domain_link=_domain_link(family, shape, wrap=wrap),
        network_link=family.network_link,
        torus=shape,
        torus_wrap=wrap,
        ici_link=family.ici_link,
        devices_per_chip=family.devices_per_chip,
        topology_name=f"{family.libtpu_name}:{'x'.join(map(str, shape))}",
        topology_options=options,
        allowance=family.allowance,
        notes=family.notes,
    )


def slice_shape(family: TpuFamily, number: int) -> tuple[int, ...]:
    """Chips of the slice by dim.

    Raises
    ------
    BadInputError
        With the published types, and the rule of cubes where the generation has them.
    """
    if number in family.slices:
        return family.slices[number]
    cube = CUBE**3 * family.cores_per_chip
    if family.cubes and number % cube == 0 and number <= family.largest_chips * family.cores_per_chip:
        box = compact_box(number // cube)
        if box[2] < LONGEST_CUBES:
            return tuple(CUBE * edge for edge in box)
    known = ", ".join(f"{family.name}-{size}" for size in sorted(family.slices))
    largest = family.largest_chips * family.cores_per_chip
    rule = f", then multiples of {cube} (whole cubes of 4x4x4 chips) up to {largest}" if family.cubes else ""
    raise BadInputError(f"hardware '{family.name}-{number}': no such slice; known: {known}{rule}")


def compact_box(cubes: int) -> tuple[int, int, int]:
    """The box of ``cubes`` cubes with the shortest longest edge, then the smallest sum of edges; edges sorted.

    >>> compact_box(2), compact_box(4), compact_box(12), compact_box(96)
    ((1, 1, 2), (1, 2, 2), (2, 2, 3), (4, 4, 6))
    """
    boxes = []
    for a in range(1, round(cubes ** (1 / 3)) + 1):
        if cubes % a:
            continue
        rest = cubes // a
        boxes += [(a, b, rest // b) for b in range(a, int(rest**0.5) + 1) if rest % b == 0]
    return min(boxes, key=lambda box: (box[2], sum(box)))


def wraparound(family: TpuFamily, shape: tuple[int, ...]) -> tuple[bool, ...]:
    """Which dims of a slice close to a ring.

    v4, v5p and 7x: all dims of slices that are whole 4x4x4 cubes, no others (Google Cloud TPU v5p documentation). v5e and v6e:
    the dims of the pod's full 16 chips (jax-ml/scaling-book tpus.md, maxtext's accelerator_to_spec_map.py). v2 and v3: the
    dims of the pod's full 16 and 32 chips, whose opposite edges are wired together (Jouppi et al., CACM 2020).
    """
    if family.wrap == "cubes":
        return (all(edge % CUBE == 0 for edge in shape),) * len(shape)
    return tuple(edge == int(family.wrap.removeprefix("full-")) for edge in shape)


def _domain_link(family: TpuFamily, shape: tuple[int, ...], *, wrap: tuple[bool, ...]) -> Link:
    """All ICI links of a chip that one collective over the whole slice can use, shared by the chip's devices.

    A ring dim sends both ways at once and gives two links; a line gives one, since its end chips have only one; a dim of one
    chip gives none.
    """
    links = sum(2 if closed else 1 for edge, closed in zip(shape, wrap, strict=True) if edge > 1)
    one = family.ici_link.oneway_bytes_per_s
    total = one.model_copy(
        update={
            "value": max(links, 1) * one.value / family.devices_per_chip,
            "source": f"{max(links, 1)} usable links a chip, {family.devices_per_chip} devices a chip; one link: {one.source}",
        }
    )
    return Link(name=family.ici_link.name, oneway_bytes_per_s=total, latency_s=family.ici_link.latency_s)
