"""Faults of a user's step for absent devices, with the line of the user's file and a fix."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

from planner.measure.step_file.absent import is_users

EVAL_SHAPE = (
    "no array can be made on absent devices: make shapes with jax.eval_shape or lcplan.step.abstract_state, and give them to"
    " .lower()"
)
CALLBACK = "a callback needs the host of the devices; leave it out of the step that is compiled for absent ones"
LIBRARY = (
    "the kernel's library is not loaded in this Python; import it in the step file, or give a Python that has it with"
    " --toolchain"
)
DEVICES = (
    "arrays or a mesh of this machine's own devices meet those of the target; use the mesh that build is given, and shapes in"
    " place of arrays"
)
DIVIDES = "a sharded dimension does not divide; add a rule to LCPLAN, so that such strategies are not compiled"
_KNOWN: tuple[tuple[str, str], ...] = (
    (r"[Cc]ompile-only client|not implemented.*compile.?only", EVAL_SHAPE),
    (r"has no attribute 'local_devices'|has no attribute 'client'|'Executable' object", EVAL_SHAPE),
    (r"[Uu]nknown backend|callbacks? |host callback|[Cc]allback.*not supported|lowering.*callback", CALLBACK),
    (r"No FFI handler|No registered implementation|NOT_FOUND.*[Cc]ustom call", LIBRARY),
    (r"[Mm]emory_?[Ss]tats", "absent devices have no memory in use; leave the question out"),
    (r"incompatible devices|Received incompatible|device order|device_assignment", DEVICES),
    (r"divisible by|does not divide|not divisible|evenly divide", DIVIDES),
)
"""Messages of jax 0.10.1 on steps that need devices, each with a fix; tests/planner/measure/step_file has a step for each."""


class StepFaultError(Exception):
    """A fault of the user's step; its text names the line and a fix."""


def explain(error: BaseException, *, root: Path) -> StepFaultError:
    """The fault that an exception of a user's code is."""
    words = " ".join(str(error).split("\n\n")[0].split())[:300]
    text = f"{type(error).__name__}: {str(error)[:2000]}"
    way = next((way for pattern, way in _KNOWN if re.search(pattern, text, re.DOTALL)), "")
    place = _place(error, root)
    if isinstance(error, ModuleNotFoundError):
        way = "install it in this Python, or give the Python that trains with --toolchain"
    shown = f"{type(error).__name__}: {words}" if words else type(error).__name__
    return StepFaultError(f"{place}{shown}{f'; {way}' if way else ''}")


def _place(error: BaseException, root: Path) -> str:
    """FILE:LINE of the innermost frame of the user's own."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}:{error.lineno}: "
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename, root)]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}: " if frames else ""
