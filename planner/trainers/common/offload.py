"""State that a trainer keeps in the host's memory: the memory that this frees on a device and takes on the host."""

from __future__ import annotations

from lcplan.formats.units import format_bytes
from planner.trainers import Difference, Job

STATE_BYTES = 16.0
"""Bytes per parameter: fp32 weights, gradients and two moments, or bf16 weights and gradients with fp32 masters and moments."""
OPTIMIZER_BYTES = 12.0
"""Bytes per parameter: fp32 masters and two moments."""


def in_host_memory(job: Job, *, bytes_per_parameter: float, shards: int, key: str, where: str = "cpu") -> list[Difference]:
    """Bytes of the state that leave the device.

    Parameters
    ----------
    job
        The trained model, workload and hardware.
    bytes_per_parameter
        That leave the device.
    shards
        Devices that these bytes of the whole model are split over.
    key
        The trainer's own key.
    where
        ``cpu`` or ``nvme``.
    """
    moved = bytes_per_parameter * job.model.parameters / shards
    if not moved:
        return []
    share = job.hardware.device.host_memory_bytes
    devices, whole = job.devices_per_host, 0.0 if share is None else share.value * job.hardware.node_size
    host = f"{format_bytes(moved * devices)} a host of {devices} device{'s' * (devices > 1)}"
    room = ""
    if where == "cpu" and share is not None:
        room = f", of {format_bytes(whole)}"
        room += ": more than it has" if moved * devices > whole else ""
    return [
        Difference(
            name="offload",
            plan="the state on the device",
            trainer=f"{key}: part of it on {'NVMe' if where == 'nvme' else 'the host'}",
            why=f"{host}{room}; the step waits for it, which the cost model does not price",
            extra_bytes=-round(moved),
            host_bytes=round(moved) if where == "cpu" else 0,
        )
    ]
