"""Trainers: what each can express of a strategy. Loaded by name, one at a time."""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType

from lcplan.errors import BadInputError
from lcplan.suggest import hint
from planner.trainers.interface import Difference, Job, Trainer
from planner.trainers.translate import Translation, translate

_HOME = MappingProxyType(
    {
        "maxtext": "MAXTEXT",
        "megatron": "MEGATRON",
        "torchtitan": "TORCHTITAN",
        "accelerate": "ACCELERATE",
        "deepspeed": "DEEPSPEED",
        "levanter": "LEVANTER",
        "jax": "OWN_STEP",
    }
)
TRAINER_NAMES: tuple[str, ...] = tuple(_HOME)
_MODULES = {"jax": "own_step"}


def trainer(name: str) -> Trainer:
    """The trainer of that name.

    Raises
    ------
    BadInputError
        There is none; says which there are.
    """
    if name not in _HOME:
        raise BadInputError(f"no trainer {name!r}{hint(name, TRAINER_NAMES)}")
    found: Trainer = getattr(import_module(f"planner.trainers.{_MODULES.get(name, name)}"), _HOME[name])
    return found


__all__ = ["TRAINER_NAMES", "Difference", "Job", "Trainer", "Translation", "trainer", "translate"]
