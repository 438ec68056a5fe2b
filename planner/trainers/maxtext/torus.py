"""Whether a mesh fits a TPU slice's torus without cutting a dim, as jax's ``create_device_mesh`` requires."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from math import prod

from planner.trainers import Job

REORDERED_CHIPS = 8
"""Slices up to this many chips have an order of their own, whatever the mesh (jax, ``_src/mesh_utils.py``)."""


def unplaced(axes: Mapping[str, int], torus: tuple[int, ...]) -> str | None:
    """The first axis that no whole dims are left for; None where all have theirs.

    From the innermost axis on, each takes the most dims whose product is its size, the first of these that are left.

    Parameters
    ----------
    axes
        Sizes inside a slice, outermost first.
    torus
        Chips along each dim.

    Notes
    -----
    Source: jax 0.11.2, ``_create_device_mesh_for_nd_torus``.

    Examples
    --------
    >>> unplaced({"fsdp": 16, "context": 4}, (4, 4, 4))
    >>> unplaced({"fsdp": 64, "tensor": 4}, (16, 16))
    'tensor'
    """
    left = dict(enumerate(torus))
    for axis, size in reversed(tuple(axes.items())):
        if size == 1:
            continue
        ways = (dims for count in range(len(left), 0, -1) for dims in combinations(left, count))
        taken = next((dims for dims in ways if prod(left[dim] for dim in dims) == size), None)
        if taken is None:
            return axis
        left = {dim: edge for dim, edge in left.items() if dim not in taken}
    return None


def off_the_torus(axes: Mapping[str, int], job: Job, *, split: bool) -> Iterator[str]:
    """The refusal of a mesh that cuts a dim of the torus, unless ``split`` allows it.

    A 7x chip's two devices have rules of their own in jax and are left alone.
    """
    hardware = job.hardware
    torus = hardware.torus
    whole = job.strategy.devices == hardware.devices and prod(axes.values()) == hardware.domain_size
    if split or torus is None or not whole or hardware.devices_per_chip != 1 or prod(torus) <= REORDERED_CHIPS:
        return
    axis = unplaced(axes, torus)
    if axis is not None:
        shape = "x".join(map(str, torus))
        yield (
            f"ici_{axis}_parallelism={axes[axis]} is not a product of whole dims of {hardware.name}'s {shape} torus with the "
            "other axes, and jax refuses to cut one (as in pytorch/xla#8381); set allow_split_physical_axes: true, or sizes "
            "that are such products"
        )
