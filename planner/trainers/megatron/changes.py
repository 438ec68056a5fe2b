"""Megatron's arguments: ranks, batch and recomputation; how the state is split, and the part of it on the host."""

from __future__ import annotations

from typing import Any

from planner.trainers.changes.interface import Form, Settings, Switch
from planner.trainers.common.imported import Imported
from planner.trainers.common.interface import Job
from planner.trainers.megatron.experts import recomputed_modules
from planner.trainers.megatron.facts import SCHEMES

RECOMPUTATION = ("recompute-granularity", "recompute-method", "recompute-num-layers", "recompute-modules")


def settings(job: Job, imported: Imported) -> Settings:
    """Ranks, batch and recomputation."""
    mesh, said = job.strategy.mesh, imported.settings
    found: dict[str, Any] = {"tensor-model-parallel-size": [str(mesh.tensor)], "context-parallel-size": [str(mesh.context)]}
    found |= {"cp-comm-type": [SCHEMES[job.strategy.scheme]]} if mesh.context > 1 and job.strategy.scheme in SCHEMES else {}
    found["sequence-parallel"] = [] if mesh.tensor > 1 and "sequence-parallel" in said else None
    if mesh.tensor > 1 and said.get("tensor-model-parallel-size", ["1"]) == ["1"]:
        found["sequence-parallel"] = []
    found |= {"micro-batch-size": [str(job.micro_sequences)], "global-batch-size": [str(job.workload.global_batch)]}
    return found | _recomputation(job)


def _recomputation(job: Job) -> dict[str, Any]:
    found: dict[str, Any] = dict.fromkeys(RECOMPUTATION)
    if job.strategy.remat == "full":
        return found | dict(zip(RECOMPUTATION, (["full"], ["uniform"], ["1"], None), strict=True))
    if job.strategy.remat == "save-except-mlp":
        return found | {"recompute-granularity": ["selective"], "recompute-modules": list(recomputed_modules(job.model))}
    return found


def switches(imported: Imported, job: Job) -> tuple[Switch, ...]:
    """Arguments that take tensors off a device, each where the file does not have it."""
    said, found = imported.settings, []
    sharded = {"use-distributed-optimizer", "use-megatron-fsdp", "use-torch-fsdp2"} & said.keys()
    if job.strategy.mesh.tensor > 1 and "sequence-parallel" not in said:
        found.append(Switch({"sequence-parallel": []}))
    if (said.get("attention-backend") or ["auto"])[0] in ("unfused", "local"):
        found.append(Switch({"attention-backend": ["flash"]}))
    if "no-create-attention-mask-in-dataloader" not in said:
        found.append(Switch({"no-create-attention-mask-in-dataloader": []}))
    if not sharded:
        found.append(Switch({"use-distributed-optimizer": []}))
    if "torch-fsdp2-no-reshard-after-forward" in said:
        found.append(Switch({"torch-fsdp2-no-reshard-after-forward": None}))
    if "optimizer-cpu-offload" not in said and "use-torch-fsdp2" not in said:
        needed = ("optimizer-cpu-offload", "use-precision-aware-optimizer", "use-distributed-optimizer")
        found.append(Switch({key: [] for key in needed if key not in said}, moves="optimizer"))
    return tuple(found)


def schemes(imported: Imported) -> tuple[str, ...]:
    """Its three exchanges, in Transformer Engine's attention only."""
    return () if imported.settings.get("transformer-impl") == ["local"] else tuple(SCHEMES)


def remats(_: Imported) -> tuple[str, ...]:
    """Full recomputation, selective recomputation of the feed-forward, or no recomputation."""
    return ("full", "save-except-mlp", "save-all")


def axes(imported: Imported) -> dict[str, int]:
    """Ranks of a batch are replicas, but under a fully sharded optimizer."""
    fully = {"use-megatron-fsdp", "use-torch-fsdp2"} & imported.settings.keys() and not imported.whole_weights
    return {"data": 1} if fully and "num-distributed-optimizer-instances" not in imported.settings else {"fsdp": 1}


def line(key: str, value: Any) -> str:
    """Write an argument with its values.

    >>> line("recompute-num-layers", ["1"])
    '--recompute-num-layers 1'
    """
    return f"without --{key}" if value is None else " ".join((f"--{key}", *value))


FORM = Form(settings, switches, schemes, remats, line, axes=axes)
