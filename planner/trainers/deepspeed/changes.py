"""DeepSpeed's JSON: ranks, batch and ZeRO; checkpointing and the loss belong to the training script."""

from __future__ import annotations

import json
from typing import Any

from planner.trainers.changes.interface import Form, Settings, Switch
from planner.trainers.common.imported import Imported
from planner.trainers.common.interface import Job

_Z = "zero_optimization."
SMALL_BUCKET = 50_000_000
"""Elements of a bucket that the Transformers documentation uses as an example of a smaller one (DeepSpeed, ZeRO-2)."""
SCRIPT = {
    "remat": "gradient checkpointing of the training script",
    "loss_chunk_tokens": "a loss in chunks (Liger's fused linear cross entropy, ALST's tiled loss)",
}


def settings(job: Job, imported: Imported) -> Settings:
    """Ranks of a sequence, of a product, and the batch."""
    mesh, said = job.strategy.mesh, imported.settings
    found: dict[str, Any] = {"sequence_parallel_size": mesh.context, "tensor_parallel.autotp_size": mesh.tensor}
    found["train_micro_batch_size_per_gpu"] = job.micro_sequences
    found["gradient_accumulation_steps"] = job.strategy.microbatches
    return found | ({"train_batch_size": job.workload.global_batch} if "train_batch_size" in said else {})


def switches(imported: Imported, job: Job) -> tuple[Switch, ...]:
    """Stage 3, smaller buckets, and state on the host."""
    said, found = imported.settings, []
    stage = said.get(_Z + "stage", 0)
    tensor = job.strategy.mesh.tensor > 1
    full: dict[str, Any] = {} if stage == 3 or tensor else {_Z + "stage": 3}
    if full and job.strategy.devices > 1:
        found.append(Switch(full))
    if said.get(_Z + "reduce_bucket_size") not in ("auto",) and imported.program.bucket_bytes:
        names = ("reduce_bucket_size", *("allgather_bucket_size",) * (stage < 3))
        found.append(Switch({_Z + name: SMALL_BUCKET for name in names}))
    optimizer = {_Z + "offload_optimizer": {"device": "cpu"}}
    whole = _device(said, "offload_optimizer") != "none" and _ratio(said) >= 1.0
    if not whole and stage:
        found.append(Switch(optimizer, moves="optimizer"))
    if _device(said, "offload_param") == "none" and not tensor:
        found.append(Switch({**full, **({} if whole else optimizer), _Z + "offload_param": {"device": "cpu"}}, moves="all"))
    return tuple(found)


def _device(said: Settings, name: str) -> str:
    section = said.get(_Z + name)
    return str(section.get("device", "none")) if isinstance(section, dict) else "none"


def _ratio(said: Settings) -> float:
    section = said.get(_Z + "offload_optimizer")
    ratio = section.get("ratio", 1.0) if isinstance(section, dict) else 1.0
    return float(ratio) if isinstance(ratio, int | float) else 1.0


def schemes(_: Imported) -> tuple[str, ...]:
    """Its sequence parallelism is Ulysses."""
    return ("ulysses",)


def remats(_: Imported) -> tuple[str, ...]:
    """Return Transformers' checkpointing: on or off, or with each layer's input on the host."""
    return ("full", "save-all", "offload-layer-in")


def axes(imported: Imported) -> dict[str, int]:
    """Every data-parallel rank shares the state of stage 3, and is a replica of the weights below."""
    return {"fsdp": 1} if imported.whole_weights or imported.settings.get(_Z + "stage", 0) == 0 else {"data": 1}


def line(key: str, value: Any) -> str:
    """Write a setting as JSON does.

    >>> line("zero_optimization.stage", 3)
    '"zero_optimization": {"stage": 3}'
    """
    section, dot, name = key.partition(".")
    inside = f'"{name if dot else section}": {json.dumps(value)}'
    if value is None:
        return f'without "{name if dot else section}"'
    return f'"{section}": {{{inside}}}' if dot else inside


FORM = Form(settings, switches, schemes, remats, line, axes=axes, script=SCRIPT)
