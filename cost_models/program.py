"""Program: what a trainer's step does otherwise than the step of docs/step.md, as far as a law depends on it."""

from __future__ import annotations

from types import MappingProxyType
from typing import Literal

from lcplan.frozen import Frozen
from lcplan.remat import NAMED_TENSORS


class Program(Frozen):
    """A step's layout beyond its strategy. The defaults are the step of docs/step.md."""

    saved: tuple[str, ...] | None = None
    """Named tensors of a layer (lcplan.remat) that are kept for the backward pass, in place of the strategy's policy."""
    attention: Literal["step", "flash", "unfused"] = "step"
    """``step``: the kernel of docs/step.md on that device. ``flash``: the trainer's own fused kernel. ``unfused``: scores,
    softmax and weights go through memory."""
    data_gradients: Literal["exposed", "behind-backward"] = "exposed"
    """Whether gradients are reduced over data after the backward pass or behind it."""


STEP = Program()

PROGRAMS: MappingProxyType[str, Program] = MappingProxyType(
    {
        "lcplan": STEP,
        "flash": Program(attention="flash", data_gradients="behind-backward"),
        "unfused": Program(attention="unfused"),
    }
)
"""Trainers by the name that a table's row may give."""

assert all(set(program.saved or ()) <= set(NAMED_TENSORS) for program in PROGRAMS.values())
