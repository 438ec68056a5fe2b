"""Megatron: parse_args and validate_args, then the names and head counts that they let through; Bridge's fields by name."""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lcplan_checker import answer

CP_COMM_TYPES = ("p2p", "all_gather", "a2a", "a2a+p2p")


def check(request: dict[str, Any]) -> dict[str, Any]:
    """Facts of the arguments as Megatron understands them."""
    os.environ |= {"WORLD_SIZE": str(request["devices"]), "RANK": "0", "LOCAL_RANK": "0"}
    from megatron.training import arguments

    major = request["compute_capability"]
    arguments.get_device_arch_version = lambda: major  # the validator asks the GPU, which is not here
    arguments.torch.cuda.get_device_capability = lambda *_: (major, 0)
    sys.argv = ["check", *words(Path(request["file"]).read_text())]
    args = arguments.validate_args(arguments.parse_args())
    _unseen(args)
    if request.get("bridge"):
        _bridge(Path(request["file"]).with_name(request["bridge"]).read_text())
    return {
        "devices": args.world_size,
        "mesh": _mesh(args),
        "data_parallel": args.data_parallel_size,
        "seq_len": args.seq_length,
        "global_batch": args.global_batch_size,
        "microbatches": args.global_batch_size // (args.micro_batch_size * args.data_parallel_size),
        "recompute": [args.recompute_granularity, args.recompute_modules],
        "cp_comm_type": args.cp_comm_type,
        "tp_comm_overlap": args.tp_comm_overlap,
        **_experts(args),
    }


def _mesh(args: Any) -> dict[str, int]:
    """Axis sizes; expert ranks are an axis where they are data-parallel ranks only, and else folded over the axes."""
    experts, split = args.expert_model_parallel_size, args.expert_tensor_parallel_size
    if args.world_size % (experts * split):
        raise ValueError(f"experts on {experts * split} ranks do not divide the {args.world_size} ranks (parallel_state)")
    context, tensor = args.context_parallel_size, args.tensor_model_parallel_size
    copies = args.num_distributed_optimizer_instances
    ranks = args.data_parallel_size // copies
    axis = experts if context == 1 and split == tensor and ranks % experts == 0 else 1
    return {"data": copies, "fsdp": ranks // axis, "context": context, "tensor": tensor, "expert": axis}


def _experts(args: Any) -> dict[str, Any]:
    """Number, experts of a token and width; and the dispatcher with its capacity."""
    if args.num_experts is None:
        return {}
    return {
        "experts": [args.num_experts, args.moe_router_topk, args.moe_ffn_hidden_size],
        "expert_ranks": [args.expert_model_parallel_size, args.expert_tensor_parallel_size],
        "dispatch": [args.moe_token_dispatcher_type, args.moe_expert_capacity_factor],
    }


def words(text: str) -> list[str]:
    """An argument file's words, comments left out."""
    return [word for line in text.splitlines() for word in shlex.split(line, comments=True)]


def _unseen(args: Any) -> None:
    """List settings that validate_args accepts and the run then refuses."""
    wrong = [kind for kind in args.cp_comm_type if kind not in CP_COMM_TYPES]
    if wrong:
        raise ValueError(f"--cp-comm-type {wrong[0]} is not one of {', '.join(CP_COMM_TYPES)}")
    groups = args.num_query_groups if args.group_query_attention else args.num_attention_heads
    if "a2a" in args.cp_comm_type and (groups // args.tensor_model_parallel_size) % args.context_parallel_size:
        raise ValueError(f"a2a: {groups} query groups over tensor and context ranks do not divide")


def _bridge(text: str) -> None:
    """Every override must be a field of the megatron-core dataclass that Bridge's section is."""
    from megatron.core.distributed import DistributedDataParallelConfig
    from megatron.core.transformer.transformer_config import TransformerConfig
    from megatron.training import config

    sections = {
        "model": (TransformerConfig,),
        "ddp": (DistributedDataParallelConfig,),
        "train": (config.TrainingConfig,),
        "dist": (config.DistributedInitConfig,),
        "checkpoint": (config.CheckpointConfig,),
    }
    own = {"model.seq_length", "dataset.seq_length"}  # Bridge's own additions (GPTModelProvider, GPTDatasetConfig)
    names = [line.partition("=")[0] for line in text.splitlines() if line and not line.startswith("#")]
    for name in names:
        section, _, field = name.partition(".")
        known = {f.name for cls in sections.get(section, ()) for f in dataclasses.fields(cls)}
        if name not in own and field not in known:
            raise ValueError(f"{name} is no field of Megatron-Bridge's {section} section")


def keys() -> Iterator[str]:
    """The options of Megatron's parser, without dashes."""
    import argparse

    from megatron.training.arguments import add_megatron_arguments

    parser = add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False))
    for action in parser._actions:
        yield from (option.removeprefix("--") for option in action.option_strings if option.startswith("--"))


if __name__ == "__main__":
    answer(check, "megatron-core", preload="megatron.training.arguments", keys=keys)
