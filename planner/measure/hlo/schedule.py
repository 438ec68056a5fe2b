"""Facts of an executable's schedule: how many collectives overlap with compute, and how many are combined ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from lcplan.evidence.measurement import Schedule
from lcplan.spec.collective import Op
from planner.measure.hlo.text import Computation, Instruction, Module

COLLECTIVE_OPS = {*get_args(Op), "collective-broadcast"} - {"broadcast"}
"""Opcodes of collectives; HLO's own ``broadcast`` only repeats a value on its device."""
_COMPUTE = {"fusion", "custom-call", "dot", "convolution", "while", "conditional", "call", "scatter", "sort"}
ASYNC_FUSION, ASYNC_FUSION_DONE = "async-collective-start", "async-collective-done"
"""libtpu's names for the fusions that begin and end a collective which other fusions carry on."""


def read_schedule(module: Module) -> Schedule:
    """Collective instructions of the text, each counted once however often its loop runs.

    ``overlapped`` ones have a fusion, a kernel or a loop between their start and their done, in the order in which the
    compiler scheduled them; ``combined`` ones carry several arrays in one message.
    """
    found = [pair for place in module.computations.values() for pair in _pairs(place)]
    several = [one for place in module.computations.values() for one in place.instructions.values() if _combined(one)]
    return Schedule(
        asynchronous=len(found),
        overlapped=sum(any(_computes(one) for one in between) for between in found),
        combined=len(several),
    )


def _pairs(place: Computation) -> Iterator[Sequence[Instruction]]:
    """Yield the instructions between the start and the done of each asynchronous collective of a computation."""
    order = list(place.instructions.values())
    for index, start in enumerate(order):
        done = _done_of(start, order[index + 1 :])
        if done is not None:
            yield order[index + 1 : index + 1 + done]


def _done_of(start: Instruction, later: Sequence[Instruction]) -> int | None:
    """How many instructions later the collective that ``start`` begins is done; None where it begins none."""
    if start.opcode == "fusion" and start.name.startswith(ASYNC_FUSION):
        return next((i for i, one in enumerate(later) if one.name.startswith(ASYNC_FUSION_DONE)), None)
    if start.opcode.removesuffix("-start") not in COLLECTIVE_OPS or not start.opcode.endswith("-start"):
        return None
    return next((i for i, one in enumerate(later) if one.opcode.endswith("-done") and start.name in one.operands), None)


def _computes(instruction: Instruction) -> bool:
    return instruction.opcode in _COMPUTE and not instruction.name.startswith((ASYNC_FUSION, ASYNC_FUSION_DONE))


def _combined(instruction: Instruction) -> bool:
    return instruction.opcode.removesuffix("-start") in COLLECTIVE_OPS and len(instruction.operands) > 1
