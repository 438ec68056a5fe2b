"""Print every key that an installed trainer knows, one a line: the source of the ``keys.txt`` of each trainer.

Run it with the trainer's own Python: ``PYTHON tests/trainers/list_keys.py maxtext > planner/trainers/maxtext/keys.txt``.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import Any


def maxtext() -> Iterator[str]:
    from maxtext.configs.types import MaxTextConfig

    yield "base_config"
    yield from MaxTextConfig.model_fields


def megatron() -> Iterator[str]:
    import argparse

    from megatron.training.arguments import add_megatron_arguments

    parser = add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False))
    for action in parser._actions:
        yield from (option.removeprefix("--") for option in action.option_strings if option.startswith("--"))


def torchtitan() -> Iterator[str]:
    from torchtitan.config import configs

    for section, cls in (("training", configs.TrainingConfig), ("parallelism", configs.ParallelismConfig)):
        yield from (f"{section}.{field.name}" for field in dataclasses.fields(cls))


def accelerate() -> Iterator[str]:
    from accelerate.commands.config.config_args import ClusterConfig
    from accelerate.commands.launch import launch_command_parser

    yield from (field.name for field in dataclasses.fields(ClusterConfig))
    for name in vars(launch_command_parser().parse_args(["train.py"])):
        if name.startswith("parallelism_config_"):
            yield f"parallelism_config.{name}"
        elif name.startswith("fsdp_"):
            yield f"fsdp_config.{name}"


class Asked(dict[str, Any]):
    """A configuration that notes which keys are asked of it."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.keys_asked: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
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


def deepspeed() -> Iterator[str]:
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    from deepspeed.runtime import config
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig

    asked = Asked({"train_batch_size": 1, "optimizer": {"type": "adam"}, "zero_optimization": {"stage": 3}})
    config.DeepSpeedConfig._configure_train_batch_size = lambda _: None
    config.DeepSpeedConfig._do_sanity_check = lambda _: None
    config.DeepSpeedConfig(asked)
    yield from asked.keys_asked
    yield from ("sequence_parallel_size", "data_parallel_size")  # read by deepspeed.initialize, not by the configuration
    yield from (f"zero_optimization.{field.alias or name}" for name, field in DeepSpeedZeroConfig.model_fields.items())


PACKAGES = {
    "maxtext": "maxtext",
    "megatron": "megatron-core",
    "torchtitan": "torchtitan",
    "accelerate": "accelerate",
    "deepspeed": "deepspeed",
}

if __name__ == "__main__":
    name = sys.argv[1]
    sys.argv = sys.argv[:1]
    print(f"# Keys of {PACKAGES[name]} {metadata.version(PACKAGES[name])}, listed by tests/trainers/list_keys.py")
    print("\n".join(sorted(set(globals()[name]()))))
