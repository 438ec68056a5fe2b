"""Devices of hardware that is not there, as jax describes them to its compilers."""

from __future__ import annotations

from typing import Any

from jax.experimental import topologies

from lcplan.spec.hardware import HardwareSpec
from planner.measure.targets.target import gpu_target_config, gpu_topology


def described_devices(hardware: HardwareSpec, count: int) -> list[Any]:
    """Return ``count`` devices of a GPU or TPU target; a TPU has all of its topology's, of which the first are returned."""
    if hardware.kind == "gpu":
        text = gpu_target_config(hardware, dnn=(9, 10, 2), runtime=(12, 9, 0))
        described = topologies.get_topology_desc(platform="cuda", target_config=text, topology=gpu_topology(count, hardware))
    else:
        described = topologies.get_topology_desc(platform="tpu", topology_name=hardware.topology_name)
    return list(described.devices[:count])
