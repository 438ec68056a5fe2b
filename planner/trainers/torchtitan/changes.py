"""torchtitan's configuration: degrees, batch, checkpointing, the pieces of its loss, and state on the host."""

from __future__ import annotations

from typing import Any

from planner.trainers.changes.interface import Form, Settings, Switch
from planner.trainers.common.imported import Imported
from planner.trainers.common.interface import Job

_T, _P = "training.", "parallelism."
PIECES = 8
"""Default of ``ChunkedLossWrapper`` (components/loss.py)."""
WORDS = {"full": "full (FullAC)", "save-all": "none", "save-attention": "SaveAttention"}


def settings(job: Job, imported: Imported) -> Settings:
    """Degrees, batch, checkpointing, and the pieces of a loss in chunks."""
    mesh, said = job.strategy.mesh, imported.settings
    found: dict[str, Any] = {
        _P + "data_parallel_replicate_degree": mesh.data,
        _P + "data_parallel_shard_degree": mesh.fsdp,
        _P + "context_parallel_degree": mesh.context,
        _P + "tensor_parallel_degree": mesh.tensor,
        _T + "local_batch_size": job.micro_sequences,
        _T + "global_batch_size": job.workload.global_batch,
        "activation_checkpoint": job.strategy.remat,
    }
    return found | ({"loss.num_chunks": job.loss_chunks} if "loss.num_chunks" in said else {})


def old(imported: Imported) -> bool:
    """Whether the file is a TOML, whose releases have no loss in chunks."""
    return imported.file.endswith(".toml")


def switches(imported: Imported, _: Job) -> tuple[Switch, ...]:
    """Weights that are split again after the forward pass, and state on the host."""
    said, found = imported.settings, []
    if said.get(_P + "fsdp_reshard_after_forward") == "never":
        found.append(Switch({_P + "fsdp_reshard_after_forward": "always"}))
    if "loss.num_chunks" not in said and not old(imported):
        found.append(Switch({"loss.num_chunks": PIECES}, chunks=True))
    if said.get(_T + "enable_cpu_offload") is not True:
        found.append(Switch({_T + "enable_cpu_offload": True}, moves="all"))
    return tuple(found)


def schemes(imported: Imported) -> tuple[str, ...]:
    """The file's own exchange; 0.3.0's gathers keys and values."""
    return tuple(imported.options.get("scheme", ("all-gather",)))


def remats(imported: Imported) -> tuple[str, ...]:
    """Full checkpointing or no checkpointing; attention's own only in Python."""
    return ("full", "save-all") if old(imported) else ("full", "save-all", "save-attention")


def axes(imported: Imported) -> dict[str, int]:
    """Replicas as the file has them."""
    return {"data": int(imported.settings.get(_P + "data_parallel_replicate_degree", 1))}


def line(key: str, value: Any) -> str:
    """Write a setting with its section.

    >>> line("parallelism.tensor_parallel_degree", 2)
    'parallelism.tensor_parallel_degree = 2'
    """
    if key == "activation_checkpoint":
        return f"activation_checkpoint: {WORDS.get(str(value), value)}"
    text = str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)
    return f"without {key}" if value is None else f"{key} = {text}"


SCRIPT = {"loss_chunk_tokens": "a loss in chunks, as later releases have it"}
FORM = Form(settings, switches, schemes, remats, line, axes=axes, script=SCRIPT)
