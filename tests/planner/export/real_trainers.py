"""Where the trainers' real packages are: ``LCPLAN_<TRAINER>_PYTHON``, else a Python that tests/trainers/setup_venvs.sh made."""

from __future__ import annotations

import os
from pathlib import Path

from planner.export.python import variable_of

ROOT = Path(__file__).parents[3]
VENVS = {
    "maxtext": "maxtext",
    "megatron": "torch",
    "torchtitan": "torch",
    "accelerate": "torch",
    "deepspeed": "torch",
    "levanter": "levanter",
}


def real_python(trainer: str) -> str | None:
    """The Python that has the trainer; None where there is none."""
    given = os.environ.get(variable_of(trainer))
    made = Path(os.environ.get("LCPLAN_TRAINERS") or ROOT / ".trainers", VENVS[trainer], "bin", "python")
    return given or (str(made.absolute()) if made.exists() else None)
