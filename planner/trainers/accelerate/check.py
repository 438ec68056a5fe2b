"""Accelerate: the launcher's validation, the two plugins built from its environment, and nested keys that it drops unseen."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from lcplan_checker import answer


def check(request: dict[str, Any]) -> dict[str, Any]:
    """Facts of the YAML as the launcher hands them on."""
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils.launch import prepare_multi_gpu_env

    parser = launch_command_parser()
    known = set(vars(parser.parse_args(["train.py"])))
    args, _, _ = _validate_launch_command(parser.parse_args(["--config_file", request["file"], "train.py"]))
    args.monitor_interval = 0.1
    wanted = ("PARALLELISM", "FSDP", "ACCELERATE")
    os.environ |= {key: value for key, value in prepare_multi_gpu_env(args).items() if key.startswith(wanted)}
    _nested_keys(request["file"], known)
    from accelerate import ParallelismConfig
    from accelerate.utils import FullyShardedDataParallelPlugin

    parallel, fsdp = ParallelismConfig(), FullyShardedDataParallelPlugin()
    if parallel.total_size != args.num_processes:
        raise ValueError(f"sizes multiply to {parallel.total_size}, num_processes is {args.num_processes}")
    if fsdp.fsdp_version == 2 and not (parallel.dp_shard_enabled or parallel.cp_enabled):
        raise ValueError("FSDP2 has no dimension to shard over: dp_shard_size and cp_size are both 1")
    return {
        "devices": args.num_processes,
        "mesh": {
            "data": parallel.dp_replicate_size,
            "fsdp": parallel.dp_shard_size,
            "context": parallel.cp_size,
            "tensor": parallel.tp_size,
        },
        "rotation": parallel.cp_handler.cp_comm_strategy if parallel.cp_handler else None,
        "fsdp_version": fsdp.fsdp_version,
        "activation_checkpointing": bool(fsdp.activation_checkpointing),
    }


def _nested_keys(file: str, known: set[str]) -> None:
    settings = yaml.safe_load(Path(file).read_text())
    for section, prefix in (("fsdp_config", "fsdp_"), ("parallelism_config", "parallelism_config_")):
        for key in settings.get(section) or {}:
            if (key if key.startswith(prefix) else prefix + key) not in known:
                raise ValueError(f"{section}.{key} is unknown and would be dropped without a word")


def keys() -> Iterator[str]:
    """The fields of the launcher's configuration, those of its sections with the section before a dot."""
    from accelerate.commands.config.config_args import ClusterConfig
    from accelerate.commands.launch import launch_command_parser

    yield from (field.name for field in dataclasses.fields(ClusterConfig))
    for name in vars(launch_command_parser().parse_args(["train.py"])):
        if name.startswith("parallelism_config_"):
            yield f"parallelism_config.{name}"
        elif name.startswith("fsdp_"):
            yield f"fsdp_config.{name}"


if __name__ == "__main__":
    answer(check, "accelerate", preload="accelerate.commands.launch", keys=keys)
