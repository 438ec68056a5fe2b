"""Transfers between TPU slices: libtpu splits a collective that crosses slices into one inside each and sends between hosts."""

from __future__ import annotations

import re

from lcplan.spec.collective import Op
from planner.measure.hlo.groups import Groups, MeshView

SLICE = 100_000
"""Device ids of slice s begin at s times this, and slices count from 1."""
_TYPES: dict[str, Op] = {
    "ONE_TO_ONE": "collective-permute",
    "ALL_GATHER": "all-gather",
    "REDUCE_SCATTER": "reduce-scatter",
    "ALL_REDUCE": "all-reduce",
    "ALL_TO_ALL": "all-to-all",
}


def transfer(attributes: str, mesh: MeshView) -> tuple[Op, str] | None:
    """Return op and axis of a send that libtpu's Megascale runtime carries between slices; None for any other send.

    Source: steps compiled for two v5e slices (libtpu 0.0.41): ``_xla_megascale_transfer_type`` and ``_xla_megascale_target``,
    which lists pairs ``{{100007->200000},..}`` or slices and places in them ``{1,2}x{0:7}``.
    """
    kind = re.search(r'_xla_megascale_transfer_type="?(\w+)', attributes)
    if "xla_megascale_runtime" not in attributes or kind is None or kind[1] not in _TYPES:
        return None
    pairs = tuple((_partition(a, mesh), _partition(b, mesh)) for a, b in re.findall(r"\{(\d+)->(\d+)\}", attributes))
    return _TYPES[kind[1]], mesh.axis_of_pairs(pairs) if pairs else mesh.label(mesh.moving(_across(mesh)[0]))


def _partition(device: str, mesh: MeshView) -> int:
    """The partition of a device id."""
    number, place = divmod(int(device), SLICE)
    return (number - 1) * mesh.segment + place


def _across(mesh: MeshView) -> Groups:
    """The devices at one place of every slice."""
    return tuple(tuple(range(place, mesh.devices, mesh.segment)) for place in range(mesh.segment))
