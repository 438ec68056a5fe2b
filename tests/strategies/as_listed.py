"""Holding the collectives of a step that is compiled for a target against those that the law lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from cost_models.collectives.step import collectives
from cost_models.inputs.setting import Setting
from lcplan.catalog import hardware, model
from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import Strategy

BOUND = 0.02
SCALARS = 4 * 100
"""Loss, tokens that count, dropped rows, and one partial norm a parameter array: XLA adds them to other all-reduces [bytes]."""

PADDING = 0.125
"""libtpu pads the parts of a reduce-scatter and evens them out by permutes of a few rows (jax 0.10.1): each at most so much
of the largest reduce-scatter that is named over the same axis."""

Listed = tuple[str, str, int, int]
"""(op, axis, bytes a call, calls a step)."""


def listed(request: dict[str, Any]) -> list[Listed]:
    """The law's list for a request to ``target_step.py`` that names all sizes."""
    machine = hardware(request["hardware"])
    spec = ModelSpec.model_validate(model(request["model"]).model_dump() | request.get("changes", {}))
    sizes = {name: request.get(name) for name in ("seq_len", "global_batch", "document_len")}
    workload = Workload.model_validate(sizes)
    setting = Setting(spec, machine, workload, machine.usable_bytes)
    uses = collectives(setting, Strategy.model_validate(request["strategy"]))
    return [(use.op, use.axis, use.bytes, use.calls) for use in uses]


def without_padding(found: Iterable[Listed], wanted: Iterable[Listed]) -> list[Listed]:
    """What a TPU's executable moves but for the rows that even out reduce-scatters: permutes of a size not named."""
    scattered, named = Counter[str](), set[tuple[str, int]]()
    for op, axis, size, _ in wanted:
        if op == "reduce-scatter":
            scattered[axis] = max(scattered[axis], size)
        if op == "collective-permute":
            named.add((axis, size))
    return [
        use
        for use in map(tuple, found)
        if use[0] != "collective-permute" or (use[1], use[2]) in named or use[2] > PADDING * scattered[use[1]]
    ]


def assert_as_listed(found: Iterable[Listed], wanted: Iterable[Listed]) -> None:
    """Bytes a step of each kind over each axis within 2 %; nothing that is not named; no message larger than any named."""
    moved, named, largest = (Counter[tuple[str, str]]() for _ in range(3))
    for op, axis, size, calls in wanted:
        named[op, axis] += size * calls
        largest[op, axis] = max(largest[op, axis], size)
    wrong = []
    for op, axis, size, calls in found:
        moved[op, axis] += size * calls
        if size > (1 + BOUND) * largest[op, axis] + SCALARS * (op == "all-reduce"):
            wrong.append(f"{op} over {axis} of {size} bytes, {calls} times: the largest named is {largest[op, axis]}")
    for key in sorted({*moved, *named}):
        slack = BOUND * named[key] + SCALARS * (key[0] == "all-reduce")
        if abs(moved[key] - named[key]) > slack:
            wrong.append(f"{key[0]} over {key[1]}: {moved[key]} bytes a step; {named[key]} are named")
    assert not wrong, "\n".join(wrong)
