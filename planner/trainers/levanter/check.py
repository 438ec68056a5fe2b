"""Levanter: draccus' parse, the mesh built over host devices, and the checkpointing name that parsing lets through."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lcplan_checker import answer


def check(request: dict[str, Any]) -> dict[str, Any]:
    """Facts of the YAML as Levanter understands it."""
    import draccus
    from haliax._src.scan import ScanCheckpointPolicy
    from levanter.main.train_lm import TrainLmConfig

    config = draccus.parse(TrainLmConfig, config_path=request["file"], args=[])
    policy = ScanCheckpointPolicy._mk(config.model.gradient_checkpointing)
    sizes = _mesh(config, request)
    trainer = config.trainer
    step = trainer.per_device_parallelism * sizes["data"] * sizes["fsdp"]
    if trainer.train_batch_size % step:
        raise ValueError(f"train_batch_size {trainer.train_batch_size} is no multiple of {step}")
    return {
        "devices": request["devices"],
        "mesh": sizes,
        "seq_len": config.train_seq_len,
        "global_batch": trainer.train_batch_size,
        "microbatches": trainer.train_batch_size // step,
        "checkpointing": not policy.disable,
    }


def keys() -> Iterator[str]:
    """The keys of the file, of the model types that lcplan reads, the trainer and its mesh with their section before a dot."""
    from dataclasses import fields

    from levanter.main.train_lm import TrainLmConfig
    from levanter.models.llama import LlamaConfig
    from levanter.models.mistral import MistralConfig
    from levanter.models.qwen import Qwen3Config, QwenConfig
    from levanter.trainer import TrainerConfig
    from levanter.utils.mesh import MeshConfig

    yield from (field.name for field in fields(TrainLmConfig))
    yield "model.type"
    for model in (LlamaConfig, MistralConfig, QwenConfig, Qwen3Config):
        yield from (f"model.{field.name}" for field in fields(model))
    yield from (f"trainer.{field.name}" for field in fields(TrainerConfig))
    yield from (f"trainer.mesh.{field.name}" for field in fields(MeshConfig))


def _mesh(config: Any, request: dict[str, Any]) -> dict[str, int]:
    """The mesh's sizes under lcplan's names; with several slices, which no host has, computed and not built."""
    mesh = config.trainer.mesh
    slices = int(mesh.dcn_axes.get("replica_dcn", 1))
    ici, dcn = mesh.axis_shapes(request["devices"], slices)
    if slices == 1:
        ici = dict(config.trainer.device_mesh.shape)
    names = {"data": "copies", "fsdp": "shards", "context": "context", "tensor": "tensor"}
    sizes = {ours: int(ici[theirs]) for ours, theirs in names.items()}
    return sizes | {"data": sizes["data"] * int(dcn.get("replica_dcn", 1) or 1)}


if __name__ == "__main__":
    answer(check, "marin-levanter", keys=keys, preload="levanter.main.train_lm")
