"""The Python that has a trainer, and the jax that it has."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

from lcplan.formats.errors import BadInputError
from planner.measure.targets import installed
from planner.trainers import trainer

_VERSION = re.compile(r"\d+(\.\d+)+")


def variable_of(name: str) -> str:
    """The environment variable that names the Python of a trainer."""
    return f"LCPLAN_{name.upper()}_PYTHON"


def python_of(name: str, given: str | None) -> str:
    """The Python of a trainer: the one given, else the one that its variable names, else this one."""
    return given or os.environ.get(variable_of(name)) or sys.executable


def jax_of(python: str) -> str:
    """Return the jax version of ``python``; empty without jax.

    Raises
    ------
    BadInputError
        ``python`` does not run.
    """
    try:
        done = subprocess.run([python, installed.__file__], capture_output=True, text=True, timeout=60, check=True)
        return str(json.loads(done.stdout).get("jax", ""))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise BadInputError(f"--toolchain {python}: not a Python that runs: {error}") from None


def trainer_jax(name: str, stated: str | None, *, option: str, python: str | None) -> str:
    """The jax that a trainer runs under: the stated version, else that of ``python``; empty where neither is known.

    Raises
    ------
    BadInputError
        The version is not one, or the trainer does not run on jax.
    """
    target = trainer(name)
    if stated is None:
        return jax_of(python) if python and target.jax else ""
    if not target.jax:
        raise BadInputError(f"{option} {stated}: {target.title} does not run on jax; leave the option out")
    if not _VERSION.fullmatch(stated):
        raise BadInputError(f"{option} {stated}: not a version; write it like 0.10.1")
    return stated
