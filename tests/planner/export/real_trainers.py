"""Where the trainers' real packages are: ``LCPLAN_<TRAINER>_PYTHON``, else a Python that tests/trainers/setup_venvs.sh made."""

from __future__ import annotations

import os
from pathlib import Path

from planner.export.python import variable_of
from planner.trainers import all_trainers
from planner.trainers.registry import folder_of

ROOT = Path(__file__).parents[3]


def environment_of(trainer: str) -> str:
    """The environment that a trainer's requirements.txt names."""
    first = (folder_of(trainer) / "requirements.txt").read_text(encoding="utf-8").splitlines()[0]
    return first.removeprefix("# environment: ")


REAL = tuple(one.name for one in all_trainers() if not one.own_step)
"""Trainers with a package of their own."""


def real_python(trainer: str) -> str | None:
    """The Python that has the trainer; None where there is none."""
    given = os.environ.get(variable_of(trainer))
    made = Path(os.environ.get("LCPLAN_TRAINERS") or ROOT / ".trainers", environment_of(trainer), "bin", "python")
    return given or (str(made.absolute()) if made.exists() else None)
