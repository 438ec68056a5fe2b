"""Part: one part of a device's memory or of a step's time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from lcplan.strategy import AxisName

MemoryKind = Literal["state", "input", "gradients", "activations", "cache", "communication"]
"""Content of the bytes: persistent state, the batch, gradients, activations, a KV cache, or operands of collectives."""

TimeKind = Literal["compute", "communication", "host"]
"""The cause of the time: the device's own work, transfers between devices, or the host."""


@dataclass(frozen=True)
class Part:
    """One part of memory or of time.

    ``key`` names it in JSON, ``label`` in reports. ``rates`` are the device rates of a compute part; ``axis`` and ``purposes``
    belong to a communication part: the mesh axis that it serves, and the purposes of the collectives that it sums. ``scope``
    is the name of the part's operations in a profile.
    """

    key: str
    kind: MemoryKind | TimeKind
    label: str
    meaning: str
    axis: AxisName | None = None
    rates: tuple[str, ...] = ()
    purposes: tuple[str, ...] = ()
    scope: str = ""

    def of(self, prefix: str) -> Part:
        """Return the same part of one half of an RL iteration: ``prefix`` is ``train`` or ``rollout``."""
        return replace(self, key=f"{prefix}_{self.key}", label=f"{prefix}: {self.label}")


def keys(parts: tuple[Part, ...]) -> tuple[str, ...]:
    """Return the keys of ``parts``, in their order.

    Parameters
    ----------
    parts : tuple of Part
        Parts of memory or of time.

    Returns
    -------
    tuple of str
        Keys, as in JSON [no unit].

    Notes
    -----
    Source: ``cost_models.parts.memory`` and ``cost_models.parts.time``.
    """
    return tuple(part.key for part in parts)
