"""The mesh of a MaxText configuration: ici and dcn parts multiplied, ``-1`` filled from the devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from lcplan.formats.errors import BadInputError
from planner.trainers.common.imported import refuse_axes, whole

AXES = ("diloco", "data", "pipeline", "fsdp", "fsdp_transpose", "sequence", "context", "context_usp_ulysses",
        "context_autoregressive", "tensor", "tensor_transpose", "tensor_sequence", "expert", "autoregressive")  # fmt: skip
OURS: Mapping[str, str] = {
    "data": "data",
    "fsdp": "fsdp",
    "fsdp_transpose": "fsdp",
    "context": "context",
    "tensor": "tensor",
    "tensor_transpose": "tensor",
    "tensor_sequence": "tensor",
    "expert": "expert",
}
"""lcplan's axis of each of MaxText's; the others are refused above one."""


@dataclass(frozen=True)
class Target:
    """Devices of the job, in slices; and the hardware where the file names it."""

    devices: int
    slices: int
    hardware: dict[str, str]


def target_of(values: Mapping[str, Any], *, file: str, devices: int | None, slices: int = 1) -> Target:
    """How many devices the configuration is for: by its topology, by ``--devices``, or by its own mesh.

    ``slices`` is the hardware's number; it counts where neither the file nor its dcn axes state one.

    Raises
    ------
    BadInputError
        The number of devices is unknown and an axis is -1, or the mesh does not multiply to the devices that are given.
    """
    slices = _slices(values, file=file, found=slices)
    topology = str(values.get("compile_topology") or "")
    hardware: dict[str, str] = {}
    if topology.startswith(("v", "tpu7x")):
        from lcplan import catalog

        name = f"tpu-{topology.replace('tpu7x', '7x')}"
        named = catalog.hardware(name)
        hardware = {"hw": f"{name}x{slices}" if slices > 1 else name}
        if devices is not None and devices != named.devices * slices:
            raise BadInputError(
                f"{file}: compile_topology {topology} has {named.devices * slices} devices, not --devices {devices}"
            )
        devices = named.devices * slices
    sizes = [*_part(values, "ici", file=file).values(), *_part(values, "dcn", file=file).values()]
    open_axes = sizes.count(-1)
    if devices is None and _ici_open(values):
        raise BadInputError(f"{file}: an ici axis is -1, which MaxText fills from the devices it finds; give --devices")
    devices = devices or prod(size for size in sizes if size != -1)
    if not open_axes and prod(sizes) != devices:
        raise BadInputError(
            f"{file}: its axes multiply to {prod(sizes)}, not to the {devices} devices; MaxText only fails when it starts"
        )
    return Target(devices, slices, hardware)


def _slices(values: Mapping[str, Any], *, file: str, found: int) -> int:
    """Slices of the job: MaxText counts them where the file leaves them at -1, and its dcn axes must multiply to them."""
    stated = [values[name] for name in ("num_slices", "compile_topology_num_slices") if values.get(name) not in (None, -1)]
    if stated:
        return whole(stated[0], "num_slices", file=file)
    across = prod(size for size in _part(values, "dcn", file=file).values() if size != -1)
    return across if across > 1 else found


def mesh_sizes(values: Mapping[str, Any], target: Target, *, file: str) -> tuple[dict[str, int], list[str]]:
    """Sizes of lcplan's axes, and notes on axes that were joined."""
    if target.devices % target.slices:
        raise BadInputError(
            f"{file}: {target.devices} devices are not {target.slices} slices of one size, which dcn axes make; fix one axis"
        )
    inner = inside_a_slice(values, target, file=file)
    outer = _filled(_part(values, "dcn", file=file), target.slices, what="dcn", file=file)
    sizes = {axis: inner[axis] * outer[axis] for axis in AXES}
    refuse_axes({f"{axis}_parallelism": size for axis, size in sizes.items() if axis not in OURS}, file=file)
    found = {"data": 1, "fsdp": 1, "context": 1, "tensor": 1, "expert": 1}
    for axis, ours in OURS.items():
        found[ours] *= sizes[axis]
    joined = [axis for axis in ("fsdp_transpose", "tensor_transpose", "tensor_sequence") if sizes[axis] > 1]
    return found, [f"{axis}={sizes[axis]} is priced as part of {OURS[axis]}" for axis in joined]


def inside_a_slice(values: Mapping[str, Any], target: Target, *, file: str) -> dict[str, int]:
    """Sizes of MaxText's axes inside one slice, outermost first."""
    return _filled(_part(values, "ici", file=file), target.devices // target.slices, what="ici", file=file)


def _ici_open(values: Mapping[str, Any]) -> bool:
    return any(values.get(f"ici_{axis}_parallelism", -1 if axis == "fsdp" else 1) == -1 for axis in AXES)


def _part(values: Mapping[str, Any], part: str, *, file: str) -> dict[str, int]:
    default = {("ici", "fsdp"): -1, ("dcn", "data"): -1}
    sizes: dict[str, int] = {}
    for axis in AXES:
        key = f"{part}_{axis}_parallelism"
        size = values.get(key, default.get((part, axis), 1))
        if isinstance(size, bool) or not isinstance(size, int) or (size < 1 and size != -1):
            raise BadInputError(f"{file}: {key}: {size!r} is not a size, nor -1")
        sizes[axis] = size
    return sizes


def _filled(sizes: dict[str, int], total: int, *, what: str, file: str) -> dict[str, int]:
    """Fill the axis that is -1 with the remaining devices."""
    unset = [axis for axis, size in sizes.items() if size == -1]
    known = prod(size for size in sizes.values() if size != -1)
    if len(unset) > 1:
        raise BadInputError(
            f"{file}: {' and '.join(f'{what}_{axis}_parallelism' for axis in unset)} are both -1; MaxText fills one"
        )
    if total % known or (not unset and known != total):
        counted = "slices" if what == "dcn" else "devices a slice"
        raise BadInputError(f"{file}: its {what} axes multiply to {known}, which does not make {total} {counted}; fix one axis")
    return sizes | dict.fromkeys(unset, total // known)
