"""The mesh of a Levanter configuration: its axes by the dimensions that they split, in both forms of the settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from lcplan.formats.errors import BadInputError
from lcplan.strategy import AXIS_ORDERS, AxisName
from planner.trainers.common.imported import whole

ICI: Mapping[str, int] = {"data": -1, "replica": 1, "model": 1}
DCN: Mapping[str, int] = {"replica_dcn": -1}
BATCH = ("replica_dcn", "replica", "data")
SHARED = {"mlp": "model", "heads": "model"}
"""Defaults of ``MeshConfig`` (levanter ``utils/mesh.py`` of 0.2.227)."""
TENSOR = ("mlp", "heads", "kv_head", "kv_heads", "q_heads_per_group", "vocab", "intermediate")
"""Logical axes of activations that tensor parallelism splits."""
POSITION = ("position", "seq")
EXPERTS = ("expert", "experts")


@dataclass(frozen=True)
class Layout:
    """Sizes of lcplan's axes, and the ranks that share a batch."""

    devices: int
    sizes: dict[str, int]
    batch_ranks: int
    order: tuple[AxisName, ...] | None
    notes: tuple[str, ...] = ()


def layout_of(trainer: Mapping[str, Any], *, devices: int | None, slices: int, file: str) -> Layout:
    """Return the mesh of a trainer's section.

    Raises
    ------
    BadInputError
        The number of devices is unknown, sizes do not multiply to it, or an axis that lcplan has not.
    """
    if devices is None:
        raise BadInputError(f"{file}: Levanter takes the devices that it finds; give --devices, or a TPU slice with --hw")
    mesh = trainer.get("mesh") or _old(trainer, file=file)
    if not isinstance(mesh, dict):
        raise BadInputError(f"{file}: trainer.mesh is not a mapping of keys to values")
    slices = slices if slices > 1 else _stated_slices(mesh, file=file)
    if devices % slices:
        raise BadInputError(f"{file}: {devices} devices are not {slices} slices of one size; change dcn_axes")
    ici = _filled(_axes(mesh, "axes", ICI, file=file), devices // slices, what="axes", file=file)
    dcn = _filled(_axes(mesh, "dcn_axes", DCN, file=file), slices, what="dcn_axes", file=file)
    sizes = {**{name: size for name, size in dcn.items() if name not in ici}, **ici}
    shared = SHARED | _mapping(mesh, "shared_mapping", file=file)
    compute = shared | {"batch": BATCH} | _mapping(mesh, "compute_mapping", file=file)
    given = _mapping(mesh, "param_mapping", file=file)
    params = shared | ({"embed": "data"} if "param_mapping" not in mesh else {}) | given
    return _layout(sizes, compute, params, devices=devices, file=file)


def _layout(
    sizes: Mapping[str, int], compute: Mapping[str, Any], params: Mapping[str, Any], *, devices: int, file: str
) -> Layout:
    batch, sharding = _physical(compute.get("batch")), _physical(params.get("embed"))
    tensor = {axis for name in TENSOR for axis in _physical(compute.get(name))}
    position = {axis for name in POSITION for axis in _physical(compute.get(name))}
    experts = {axis for name in EXPERTS for axis in _physical(compute.get(name))}
    found = {"data": 1, "fsdp": 1, "context": 1, "tensor": 1, "expert": 1}
    order: list[str] = []
    for axis, size in sizes.items():
        if axis in position:
            ours = "context"
        elif axis in batch:
            ours = "expert" if axis in experts else "fsdp" if axis in sharding else "data"
        elif axis in tensor or axis in experts:
            ours = "tensor" if axis in tensor else "expert"
        elif size > 1:
            raise BadInputError(
                f"{file}: mesh axis {axis}={size} splits neither batch, position, heads nor mlp; map it, or set it to 1"
            )
        else:
            continue
        found[ours] *= size
        order += [ours] * (size > 1)
    inner = AXIS_ORDERS[1] if "context" in order and "fsdp" in order and order.index("context") < order.index("fsdp") else None
    ranks = prod(sizes[axis] for axis in batch if axis in sizes)
    notes = []
    if found["context"] > 1 and not any(axis in sharding for axis in position):
        notes.append("the position axis does not split the state here; priced as fsdp x context shards")
    return Layout(devices, found, ranks, inner, tuple(notes))


def _old(trainer: Mapping[str, Any], *, file: str) -> dict[str, Any]:
    """The mesh by the keys of releases before ``trainer.mesh``."""

    def size(name: str) -> int:
        return whole(trainer.get(name, 1), name, file=file)

    tensor = trainer.get("tensor_parallel_axes") or []
    embed = trainer.get("fsdp_axis", "embed")
    resources = trainer.get("axis_resources") or {}
    if not isinstance(resources, dict) or not isinstance(tensor, list):
        raise BadInputError(f"{file}: axis_resources or tensor_parallel_axes is not as Levanter has them")
    return {
        "axes": {"replica": size("replica_ici_axis_size"), "data": -1, "model": size("model_axis_size")},
        "dcn_axes": {"replica_dcn": size("replica_dcn_axis_size")} if "replica_dcn_axis_size" in trainer else {},
        "shared_mapping": dict.fromkeys(map(str, tensor), "model"),
        "compute_mapping": {str(name): axis for name, axis in resources.items() if name not in ("batch", "token")},
        "param_mapping": {str(name): "data" for name in (embed if isinstance(embed, list) else [embed]) if name},
    }


def _stated_slices(mesh: Mapping[str, Any], *, file: str) -> int:
    return prod(size for size in _axes(mesh, "dcn_axes", DCN, file=file).values() if size != -1)


def _axes(mesh: Mapping[str, Any], name: str, default: Mapping[str, int], *, file: str) -> dict[str, int]:
    """The sizes of a section over its defaults; a user's -1 takes the place of the default's."""
    given = mesh.get(name) or {}
    if not isinstance(given, dict):
        raise BadInputError(f"{file}: mesh.{name} is not a mapping of axes to sizes")
    for axis, size in given.items():
        if isinstance(size, bool) or not isinstance(size, int) or (size < 1 and size != -1):
            raise BadInputError(f"{file}: mesh.{name}.{axis}: {size!r:.40} is not a size, nor -1")
    if -1 in given.values():
        default = {axis: 1 if size == -1 else size for axis, size in default.items()}
    return {**default, **{str(axis): size for axis, size in given.items()}}


def _filled(sizes: dict[str, int], total: int, *, what: str, file: str) -> dict[str, int]:
    unset = [axis for axis, size in sizes.items() if size == -1]
    known = prod(size for size in sizes.values() if size != -1)
    if len(unset) > 1 or total % known or (not unset and known != total):
        raise BadInputError(f"{file}: mesh.{what} multiply to {known}, which does not make {total}; fix one axis")
    return sizes | dict.fromkeys(unset, total // known)


def _mapping(mesh: Mapping[str, Any], name: str, *, file: str) -> dict[str, Any]:
    found = mesh.get(name) or {}
    if not isinstance(found, dict):
        raise BadInputError(f"{file}: mesh.{name} is not a mapping of logical to physical axes")
    return {str(key): value for key, value in found.items()}


def _physical(value: Any) -> tuple[str, ...]:
    """The physical axes of a mapping's entry."""
    return tuple(map(str, value)) if isinstance(value, list | tuple) else (str(value),) if value else ()
