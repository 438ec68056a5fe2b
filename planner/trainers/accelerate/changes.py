"""Accelerate's YAML: FSDP of both versions and DeepSpeed; accumulation and the loss belong to the training script."""

from __future__ import annotations

from typing import Any

from planner.trainers.accelerate.facts import ROTATION
from planner.trainers.changes.interface import Form, Settings, Switch, yaml_line
from planner.trainers.common.imported import Imported
from planner.trainers.common.interface import Job

_F, _P, _D = "fsdp_config.fsdp_", "parallelism_config.parallelism_config_", "deepspeed_config."
SCRIPT = {
    "moments_dtype": "the training script loads the model in bf16, so that state is bf16 and updates are rounded to it",
    "microbatches": "gradient_accumulation_steps of the training script",
    "remat": "gradient checkpointing of the training script",
    "loss_chunk_tokens": "a loss in chunks (TRL's chunked loss, or Liger's fused linear cross entropy)",
}


def kind_of(imported: Imported) -> str:
    """``deepspeed``, ``fsdp`` (version 2), ``fsdp1`` or ``ddp``."""
    named = str(imported.settings.get("distributed_type", "FSDP"))
    if named != "FSDP":
        return "deepspeed" if named == "DEEPSPEED" else "ddp"
    first = imported.settings.get(_F + "version", 1 if _F + "sharding_strategy" in imported.settings else 2) == 1
    return "fsdp1" if first else "fsdp"


def settings(job: Job, imported: Imported) -> Settings:
    """The sizes, the rotation, and checkpointing where FSDP has a key for it."""
    mesh, kind = job.strategy.mesh, kind_of(imported)
    found: dict[str, Any] = {}
    if kind == "deepspeed":
        found |= {_P + "dp_shard_size": mesh.data * mesh.fsdp, _P + "sp_size": mesh.context, _P + "tp_size": mesh.tensor}
        found |= {_P + "sp_backend": "deepspeed"} if mesh.context > 1 else {}
    elif kind == "fsdp":
        found |= {_P + "dp_replicate_size": mesh.data, _P + "dp_shard_size": mesh.fsdp}
        found |= {_P + "cp_size": mesh.context, _P + "tp_size": mesh.tensor}
        rotates = mesh.context > 1 and job.strategy.scheme in ROTATION
        found |= {_P + "cp_comm_strategy": ROTATION[job.strategy.scheme]} if rotates else {}
    if kind.startswith("fsdp"):
        found[_F + "activation_checkpointing"] = job.strategy.remat != "save-all"
        found |= {_F + "activation_checkpointing_offload": job.strategy.remat == "offload-layer-in"} if kind == "fsdp" else {}
    return found


def switches(imported: Imported, job: Job) -> tuple[Switch, ...]:
    """Sharding of everything, and state on the host."""
    kind, said = kind_of(imported), imported.settings
    found: list[Switch] = []
    if kind == "deepspeed":
        stage, away = said.get(_D + "zero_stage", 2), said.get(_D + "offload_optimizer_device", "none")
        full = {} if stage == 3 or job.strategy.mesh.tensor > 1 else {_D + "zero_stage": 3}
        found += [Switch(full)] if full else []
        optimizer = {_D + "offload_optimizer_device": "cpu"}
        found += [Switch(optimizer, moves="optimizer")] if away == "none" else []
        if said.get(_D + "offload_param_device", "none") == "none" and (stage == 3 or full):
            found.append(Switch({**full, **optimizer, _D + "offload_param_device": "cpu"}, moves="all"))
        return tuple(found)
    rounded = () if job.strategy.moments_dtype == "bf16" else (Switch(options={"moments_dtype": ("bf16",)}, moves="rounded"),)
    if kind == "ddp":
        return rounded
    resharding = str(said.get(_F + "reshard_after_forward", True)).upper()
    if resharding in ("FALSE", "SHARD_GRAD_OP") or (kind == "fsdp1" and not _full(said)):
        change = {_F + "reshard_after_forward": True} if kind == "fsdp" else {_F + "sharding_strategy": "FULL_SHARD"}
        found.append(Switch(change | ({_F + "reshard_after_forward": None} if kind == "fsdp1" else {})))
    if not said.get(_F + "offload_params"):
        found.append(Switch({_F + "offload_params": True}, moves="all"))
    return (*found, *rounded)


def _full(said: Settings) -> bool:
    return str(said.get(_F + "sharding_strategy", "FULL_SHARD")) in ("FULL_SHARD", "1")


def schemes(imported: Imported) -> tuple[str, ...]:
    """Ulysses under DeepSpeed; a ring or a gather under FSDP2; no other has context ranks."""
    return {"deepspeed": ("ulysses",), "fsdp": tuple(ROTATION)}.get(kind_of(imported), ())


def remats(imported: Imported) -> tuple[str, ...]:
    """Checkpointing on or off, and with each layer's input on the host; FSDP version 1 has no key for that."""
    return ("full", "save-all") if kind_of(imported) == "fsdp1" else ("full", "save-all", "offload-layer-in")


def axes(imported: Imported) -> dict[str, int]:
    """DeepSpeed splits the state over all ranks or, below stage 3, counts them as replicas."""
    kind = kind_of(imported)
    if kind == "deepspeed":
        return {"fsdp": 1} if imported.whole_weights else {"data": 1}
    return {"fsdp": {"data": 1}, "fsdp1": {"data": 1, "tensor": 1}, "ddp": {"fsdp": 1, "tensor": 1}}[kind]


FORM = Form(settings, switches, schemes, remats, yaml_line, axes=axes, script=SCRIPT)
