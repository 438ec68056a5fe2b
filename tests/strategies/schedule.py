"""In what order a compiled ring's loops send, compute and receive: the schedule that the target's compiler settled on."""

from __future__ import annotations

from planner.measure.hlo_text import Computation, Instruction, Module, parse_module

KERNELS = ("__cudnn$fmha", "tpu_custom_call")
"""Targets of the custom calls that attention's kernels are."""


def ring_loops(text: str) -> list[list[str]]:
    """``start``, ``kernel`` and ``done`` in order, for each innermost loop that sends by permutes: a ring's hops."""
    module = parse_module(text)
    bodies = {
        loop.attribute("body")
        for place in module.computations.values()
        for loop in place.instructions.values()
        if loop.opcode == "while"
    }
    places = [module.computations[body] for body in sorted(filter(None, bodies))]
    innermost = [place for place in places if all(one.opcode != "while" for one in place.instructions.values())]
    orders = [_order(module, place) for place in innermost]
    return [order for order in orders if "start" in order]


def _order(module: Module, body: Computation) -> list[str]:
    words = {"collective-permute-start": "start", "collective-permute-done": "done"}
    found = []
    for instruction in body.instructions.values():
        if instruction.opcode in words:
            found.append(words[instruction.opcode])
        elif _computes(module, instruction):
            found.append("kernel")
    return found


def _computes(module: Module, instruction: Instruction) -> bool:
    """Whether an attention kernel runs in it, at whatever depth of conditionals, calls and fusions."""
    if instruction.opcode == "custom-call":
        return any(kernel in instruction.attributes for kernel in KERNELS)
    single = [instruction.attribute(key) for key in ("calls", "to_apply", "true_computation", "false_computation", "body")]
    called = [name for name in single if name] + list(instruction.called("branch_computations"))
    inner = (module.computations[name] for name in called if name in module.computations)
    return any(_computes(module, one) for place in inner for one in place.instructions.values())
