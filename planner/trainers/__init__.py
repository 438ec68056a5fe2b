"""Trainers: what each can express of a strategy. Loaded by name, one at a time."""

from __future__ import annotations

from importlib import import_module

from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import hint
from planner.trainers.common.interface import Difference, Job, Trainer
from planner.trainers.common.translate import Translation, translate

TRAINER_NAMES: tuple[str, ...] = ("maxtext", "megatron", "torchtitan", "accelerate", "deepspeed", "levanter", "jax")
"""One folder each."""


def trainer(name: str) -> Trainer:
    """The trainer of that name.

    Raises
    ------
    BadInputError
        There is none; says which there are.
    """
    if name not in TRAINER_NAMES:
        raise BadInputError(f"no trainer {name!r}{hint(name, TRAINER_NAMES)}")
    found: Trainer = import_module(f"planner.trainers.{name}.facts").TRAINER
    return found


__all__ = ["TRAINER_NAMES", "Difference", "Job", "Trainer", "Translation", "trainer", "translate"]
