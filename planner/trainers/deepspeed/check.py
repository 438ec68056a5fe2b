"""DeepSpeed: DeepSpeedConfig under as many ranks as the plan has, and top-level keys that it drops unseen."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from lcplan_checker import answer


class Ranks:
    """Stands for the ranks' groups: what DeepSpeedConfig asks of a model-parallel unit."""

    def __init__(self, data: int, sequence: int) -> None:
        self.data, self.sequence = data, sequence

    def get_data_parallel_world_size(self) -> int:
        """Ranks with a batch of their own."""
        return self.data

    def get_sequence_parallel_world_size(self) -> int:
        """Ranks that share a sequence."""
        return self.sequence


def check(request: dict[str, Any]) -> dict[str, Any]:
    """Facts of the JSON as DeepSpeed understands it."""
    import deepspeed.comm as communication
    from deepspeed.runtime.config import DeepSpeedConfig

    settings = json.loads(Path(request["file"]).read_text())
    devices = request["devices"]
    communication.get_rank = lambda *_, **__: 0
    communication.is_initialized = lambda: True
    communication.get_world_size = lambda *_, **__: devices
    sequence = settings.get("sequence_parallel_size", 1)
    tensor = settings.get("tensor_parallel", {}).get("autotp_size", 1)
    if devices % (sequence * tensor):
        raise ValueError(f"sequence_parallel_size x autotp_size = {sequence * tensor} does not divide {devices} ranks")
    data = devices // (sequence * tensor)
    if sequence > 1 and settings.get("data_parallel_size", data) != data:
        raise ValueError(f"data_parallel_size {settings['data_parallel_size']} x {sequence} is not {devices} ranks")
    config = DeepSpeedConfig(settings, mpu=Ranks(data, sequence))
    return {
        "devices": devices,
        "mesh": {"data": 1, "fsdp": data, "context": sequence, "tensor": tensor},
        "global_batch": config.train_batch_size,
        "microbatches": config.gradient_accumulation_steps,
        "zero_stage": int(config.zero_config.stage),
        "heads": _heads(request, sequence),
    }


def _heads(request: dict[str, Any], sequence: int) -> list[int]:
    """Ulysses' own test, which first runs on the ranks themselves."""
    heads, kv_heads = request["heads"], request["kv_heads"]
    if heads % sequence or (kv_heads % sequence and sequence % kv_heads):
        raise ValueError(f"{heads} query and {kv_heads} key/value heads do not divide over {sequence} sequence ranks")
    return [heads, kv_heads]


if __name__ == "__main__":
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    answer(check, "deepspeed", preload="deepspeed.runtime.config")
