"""Records of parts by their JSON key."""

from __future__ import annotations

from cost_models.parts.memory import ITERATION_MEMORY, ROLLOUT_MEMORY, TRAINER
from cost_models.parts.part import Part
from cost_models.parts.time import ITERATION_TIME, ROLLOUT_TIME, STEP_TIME

MEMORY: dict[str, Part] = {part.key: part for part in (*ITERATION_MEMORY, *ROLLOUT_MEMORY, TRAINER)}
"""Every part of memory of every workload, by key."""

TIME: dict[str, Part] = {part.key: part for part in (*STEP_TIME, *ROLLOUT_TIME, *ITERATION_TIME)}
"""Every part of time of every workload, by key."""


def memory_label(key: str) -> str:
    """Return the label of a part of memory.

    Parameters
    ----------
    key : str
        Key in ``memory_bytes``.

    Returns
    -------
    str
        Label; the key in words where an older run has a part that no longer exists [no unit].

    Notes
    -----
    Source: ``MEMORY``.
    """
    return MEMORY[key].label if key in MEMORY else key.replace("_", " ")


def time_label(key: str) -> str:
    """Return the label of a part of time.

    Parameters
    ----------
    key : str
        Key in ``time_s``.

    Returns
    -------
    str
        Label; the key in words where an older run has a part that no longer exists [no unit].

    Notes
    -----
    Source: ``TIME``.
    """
    return TIME[key].label if key in TIME else key.replace("_", " ")
