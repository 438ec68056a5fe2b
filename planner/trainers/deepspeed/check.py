"""DeepSpeed: DeepSpeedConfig under as many ranks as the plan has, and top-level keys that it drops unseen."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lcplan_checker import answer


class Ranks:
    """Stand-in for the ranks' groups, with the methods that DeepSpeedConfig calls on a model-parallel unit."""

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


class Asked(dict[str, Any]):
    """A configuration that notes which keys are asked of it."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.keys_asked: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        """A value, its key noted."""
        self.keys_asked.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.keys_asked.add(str(key))
        return super().__contains__(key)

    def __getitem__(self, key: str) -> Any:
        self.keys_asked.add(key)
        return super().__getitem__(key)

    def keys(self) -> Any:
        """The dict itself, so that ``key in config.keys()`` is noted too."""
        return self

    def __deepcopy__(self, memo: Any) -> Asked:
        return self


def keys() -> Iterator[str]:
    """The keys that the configuration is asked for, and those of ZeRO's section."""
    from deepspeed.runtime import config
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig

    asked = Asked({"train_batch_size": 1, "optimizer": {"type": "adam"}, "zero_optimization": {"stage": 3}})
    config.DeepSpeedConfig._configure_train_batch_size = lambda _: None
    config.DeepSpeedConfig._do_sanity_check = lambda _: None
    config.DeepSpeedConfig(asked)
    yield from asked.keys_asked
    yield from ("sequence_parallel_size", "data_parallel_size")  # read by deepspeed.initialize, not by the configuration
    yield from (f"zero_optimization.{field.alias or name}" for name, field in DeepSpeedZeroConfig.model_fields.items())


if __name__ == "__main__":
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    answer(check, "deepspeed", preload="deepspeed.runtime.config", keys=keys)
