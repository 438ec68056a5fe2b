"""Trainers: the files that each reads and writes, and the strategies that it can run."""

from __future__ import annotations

from planner.trainers.common.interface import Difference, Job, Trainer
from planner.trainers.common.translate import Translation, translate
from planner.trainers.registry import all_trainers, trainer, trainer_names

__all__ = ["Difference", "Job", "Trainer", "Translation", "all_trainers", "trainer", "trainer_names", "translate"]
