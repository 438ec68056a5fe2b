"""Which jax a trainer's Python has."""

from __future__ import annotations

import json
import subprocess

from lcplan.formats.errors import BadInputError
from planner.measure.targets import installed


def jax_of(python: str) -> str:
    """The jax version of ``python``; empty where it has none.

    Raises
    ------
    BadInputError
        It is no Python that runs.
    """
    try:
        done = subprocess.run([python, installed.__file__], capture_output=True, text=True, timeout=60, check=True)
        return str(json.loads(done.stdout).get("jax", ""))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise BadInputError(f"--toolchain {python}: not a Python that runs: {error}") from None
