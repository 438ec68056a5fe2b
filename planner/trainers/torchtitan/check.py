"""torchtitan: ConfigManager, ParallelDims and the model's own validation, then the rules that sit in Trainer.__init__."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lcplan_checker import answer


def check(request: dict[str, Any]) -> dict[str, Any]:
    """Facts of the module's configuration, its model built on the meta device."""
    file = Path(request["file"])
    sys.path.insert(0, str(file.parent))
    from torchtitan.config import ConfigManager
    from torchtitan.distributed.parallel_dims import ParallelDims

    config = ConfigManager().parse_args(["--module", file.stem, "--config", request["config"]])
    dims = ParallelDims.from_config(config.parallelism, request["devices"])
    config.model_spec.model.update_from_config(config=config)
    _sequence(config, dims)
    policy = config.activation_checkpoint
    return {
        "devices": request["devices"],
        "mesh": _mesh(dims),
        "seq_len": config.training.seq_len,
        "global_batch": config.training.global_batch_size,
        "microbatches": _accumulation(config, dims),
        "activation_checkpoint": type(policy.build(dump_folder="")).__name__ if policy is not None else None,
        "parameters": _parameters(config),
        "loss_chunks": config.loss.num_chunks,
        **_experts(config, dims),
    }


def _mesh(dims: Any) -> dict[str, int]:
    """Axis sizes; expert ranks are an axis where they are ranks of dp_shard only, and else folded over the axes."""
    if dims.dp_shard * dims.cp * dims.tp % dims.ep:
        raise ValueError(f"expert_parallel_degree {dims.ep} does not divide dp_shard x cp x tp (parallel_dims)")
    axis = dims.ep if dims.cp == dims.tp == 1 else 1
    sizes = {"data": dims.dp_replicate, "fsdp": dims.dp_shard // axis, "context": dims.cp, "tensor": dims.tp}
    return {**sizes, "expert": axis}


def _experts(config: Any, dims: Any) -> dict[str, Any]:
    """Number, experts of a token and width; expert ranks, and the tensor ranks that split each expert."""
    moe = config.model_spec.model.layers[0].moe
    if moe is None:
        return {}
    inner = moe.routed_experts.inner_experts
    split = dims.tp if dims.ep == 1 else 1
    return {"experts": [moe.num_experts, moe.router.top_k, inner.hidden_dim], "expert_ranks": [dims.ep, split]}


def _sequence(config: Any, dims: Any) -> None:
    tensor = dims.tp if config.parallelism.enable_sequence_parallel else 1
    divisor = tensor * (2 * dims.cp if dims.cp > 1 else 1)
    if config.training.seq_len % divisor:
        raise ValueError(f"seq_len {config.training.seq_len} is no multiple of {divisor}")
    local = config.training.seq_len // dims.cp
    if local % config.loss.num_chunks:
        raise ValueError(f"{config.loss.num_chunks} loss chunks do not divide the {local} tokens of a context rank")


def _accumulation(config: Any, dims: Any) -> int:
    step = config.training.local_batch_size * dims.dp_replicate * dims.dp_shard
    if config.training.global_batch_size % step:
        raise ValueError(f"global batch {config.training.global_batch_size} is no multiple of {step}")
    return int(config.training.global_batch_size // step)


def _parameters(config: Any) -> int:
    import torch

    with torch.device("meta"):
        model = config.model_spec.model.build()
    return sum(parameter.numel() for parameter in model.parameters())


def keys() -> Iterator[str]:
    """The fields of the two sections that are read."""
    from torchtitan.config import configs

    for section, cls in (("training", configs.TrainingConfig), ("parallelism", configs.ParallelismConfig)):
        yield from (f"{section}.{field.name}" for field in dataclasses.fields(cls))


if __name__ == "__main__":
    answer(check, "torchtitan", preload="torchtitan.models.llama3.config_registry", keys=keys)
