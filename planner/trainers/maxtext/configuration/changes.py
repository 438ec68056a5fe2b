"""MaxText's keys: mesh inside a slice, batch, rematerialisation, tiles of the loss, and state on the host."""

from __future__ import annotations

from typing import Any

from lcplan.formats.errors import BadInputError
from planner.trainers.changes.interface import Form, Settings, Switch, yaml_line
from planner.trainers.common.imported import Imported
from planner.trainers.common.interface import Difference, Job
from planner.trainers.maxtext.configuration.pre_train import attention_keys, per_device_batch, remat_keys
from planner.trainers.maxtext.facts import SAVED, SCHEMES
from planner.trainers.maxtext.read_memory import Beyond
from planner.trainers.maxtext.read_mesh import AXES

AXES_READ = ("data", "fsdp", "context", "tensor")
KEPT = ("attention", "packing", "max_segments_per_seq")
"""Keys of attention that are the user's own."""
NAMES = frozenset(name for names in SAVED.values() for name in names)
"""Tensors that ``remat_policy: custom`` places."""


def settings(job: Job, imported: Imported) -> Settings:
    """Mesh, batch, tiles of the loss and rematerialisation; the mesh only where the file has one slice."""
    mesh, said = job.strategy.mesh, imported.settings
    found: dict[str, Any] = {}
    if not _fixed(imported):
        found |= {f"ici_{axis}_parallelism": getattr(mesh, axis) for axis in AXES_READ}
        found |= {key: value for key, value in attention_keys(job).items() if key not in KEPT and not key.startswith("sa_")}
        found |= {key: 1 for key in said if key.startswith("dcn_")}
    sequences, devices, seq = job.micro_sequences * job.replicas, job.strategy.devices, job.workload.seq_len
    tiles = job.loss_chunks
    try:
        found["per_device_batch_size"] = per_device_batch(sequences, devices, seq=seq, tiles=tiles)
    except BadInputError:
        return found  # the same strategy cannot be written, and the reading of the file shows it
    found |= {"gradient_accumulation_steps": job.strategy.microbatches, "num_vocab_tiling": tiles}
    remat = remat_keys(job)
    custom = remat["remat_policy"] == "custom"
    return found | (dict.fromkeys((name for name in NAMES if name in said), "remat") if custom else {}) | remat


def _fixed(imported: Imported) -> bool:
    """Whether the file's own mesh stays: several slices, or axes that lcplan joins."""
    said = imported.settings
    others = [axis for axis in AXES if axis not in (*AXES_READ, "expert")]
    joined = any(said.get(f"{part}_{axis}_parallelism", 1) not in (1,) for part in ("ici", "dcn") for axis in others)
    return joined or said["slices"] > 1 or said.get("compile_topology_num_slices", 1) not in (1, -1)


def switches(imported: Imported, job: Job) -> tuple[Switch, ...]:
    """Scanned layers, a fused kernel, tiles of the loss, and state on the host."""
    said, found = imported.settings, []
    if said.get("scan_layers") is False:
        found.append(Switch({"scan_layers": True}))
    if said.get("attention") == "dot_product":
        found.append(Switch({"attention": "flash" if job.hardware.kind == "tpu" else "cudnn_flash_te"}))
    optimizer, everything = {"optimizer_memory_host_offload": True}, {"parameter_memory_host_offload": True}
    if not said.get("optimizer_memory_host_offload"):
        found.append(Switch(optimizer, moves="optimizer"))
    if not said.get("parameter_memory_host_offload"):
        found.append(Switch(optimizer | everything, moves="all"))
    return tuple(found)


def schemes(_: Imported) -> tuple[str, ...]:
    """The exchanges over context that MaxText has."""
    return tuple(SCHEMES)


def remats(_: Imported) -> tuple[str, ...]:
    """Every policy of a search: MaxText takes a policy by its tensors."""
    return ()


def axes(imported: Imported) -> dict[str, int]:
    """The file's own sizes where its mesh stays."""
    if not _fixed(imported):
        return {}
    pairs = (part.split("=") for part in str(imported.options["mesh"]).split(","))
    return {axis: int(size) for axis, size in pairs}


def differences(imported: Imported, job: Job) -> list[Difference]:
    """List the state that leaves the device, and the scores of plain attention; a change rewrites the rest."""
    beyond = imported.more
    assert isinstance(beyond, Beyond)
    return beyond.of_any_strategy(job)


FORM = Form(settings, switches, schemes, remats, yaml_line, axes=axes, differences=differences)
