"""The device mesh of a target, inside a worker: absent devices from a topology, or forced host devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lcplan.strategy import Strategy
from planner.measure.rocm.plugin import open_plugin
from planner.measure.targets.target import Target


def build_mesh(target: Target, strategy: Strategy) -> Any:
    """A ``jax.sharding.Mesh`` with the strategy's axes, outermost first, over the target's devices.

    GPU and host devices are taken in their order, so that the innermost axis joins neighbours; TPU devices as
    ``mesh_utils.create_device_mesh`` lays a logical mesh onto the torus. Partition i of the executable is
    ``mesh.devices.flat[i]``.

    Raises
    ------
    ValueError
        The target has another number of devices than the mesh takes.
    """
    import numpy as np
    from jax.sharding import Mesh

    shape = strategy.mesh_shape
    devices = devices_of(target)
    if len(devices) != strategy.devices:
        raise ValueError(
            f"target {target.name} has {len(devices)} devices; the mesh {strategy.mesh.label} takes {strategy.devices}"
        )
    grid = _on_torus(shape, devices) if target.platform == "tpu" else np.array(devices).reshape(shape)
    return Mesh(grid, strategy.mesh_axes)


def mesh_over(devices: list[Any], sizes: Mapping[str, int], *, torus: bool) -> Any:
    """A mesh with axes of any names over devices, laid out like ``build_mesh``'s."""
    import numpy as np
    from jax.sharding import Mesh

    shape = tuple(sizes.values())
    grid = _on_torus(shape, devices) if torus else np.array(devices).reshape(shape)
    return Mesh(grid, tuple(sizes))


def devices_of(target: Target) -> list[Any]:
    """Return the target's devices: absent ones from a topology, or this machine's."""
    import jax
    from jax.experimental import topologies

    if target.platform == "cpu" or target.at_hand:
        return list(jax.devices())[: target.devices]
    if target.platform == "rocm":
        open_plugin()
    if target.platform in ("cuda", "rocm"):
        described = topologies.get_topology_desc(
            platform=target.platform, target_config=target.target_config, topology=target.topology
        )
    else:
        described = topologies.get_topology_desc(platform="tpu", topology_name=target.topology, **dict(target.topology_options))
    return list(described.devices)


def _on_torus(shape: tuple[int, ...], devices: list[Any]) -> Any:
    """The grid that ``create_device_mesh`` finds; the devices' own order where it fails or there are several slices."""
    import numpy as np
    from jax.experimental import mesh_utils

    for split in (False, True):
        try:
            return mesh_utils.create_device_mesh(shape, devices, allow_split_physical_axes=split)
        except (AssertionError, NotImplementedError, ValueError):
            continue
    return np.array(devices).reshape(shape)
