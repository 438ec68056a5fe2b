"""In what order a compiled ring's loops send, compute and receive: the schedule that the target's compiler settled on."""

from __future__ import annotations

from collections.abc import Iterator

from planner.measure.hlo.text import Computation, Instruction, Module, parse_module

KERNELS = ("__cudnn$fmha", "tpu_custom_call")
"""Targets of the custom calls that attention's kernels are."""

PRODUCTS = (*KERNELS, "__cublas")
"""The same and those of matrix products, where these are not dots or convolutions of the text itself."""
HOST_MEMORY = "S(5)"
"""How a layout says that an array lies in the host's memory."""


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
        elif _computes(module, instruction, kernels=KERNELS):
            found.append("kernel")
    return found


def products_beside_hops(text: str) -> list[list[int]]:
    """For each computation that sends by permutes: how many products and kernels are issued while each permute is under way."""
    return _products_between(text, "collective-permute-start", "collective-permute-done", about="")


def products_beside_host_copies(text: str) -> list[list[int]]:
    """The same of the fusions that write to the host's memory or read from it."""
    return _products_between(text, "fusion-start", "fusion-done", about=HOST_MEMORY)


def _products_between(text: str, start: str, done: str, *, about: str) -> list[list[int]]:
    module = parse_module(text)
    found = [list(_between(module, place, (start, done), about=about)) for place in module.computations.values()]
    return [counts for counts in found if counts]


def _between(module: Module, body: Computation, ends: tuple[str, str], *, about: str) -> Iterator[int]:
    order = list(body.instructions.values())
    products = [one.opcode != ends[0] and _computes(module, one, kernels=PRODUCTS) for one in order]
    for at, one in enumerate(order):
        if one.opcode == ends[0] and about in one.shape:
            until = next(i for i, other in enumerate(order) if other.opcode == ends[1] and one.name in other.operands)
            yield sum(products[at:until])


def _computes(module: Module, instruction: Instruction, *, kernels: tuple[str, ...]) -> bool:
    """Whether one of these kernels, or where they hold products a dot, runs in it, at whatever depth of calls and fusions."""
    if instruction.opcode == "custom-call":
        return any(kernel in instruction.attributes for kernel in kernels)
    if instruction.opcode in ("dot", "convolution"):
        return kernels == PRODUCTS
    single = [instruction.attribute(key) for key in ("calls", "to_apply", "true_computation", "false_computation", "body")]
    called = [name for name in single if name] + list(instruction.called("branch_computations"))
    inner = (module.computations[name] for name in called if name in module.computations)
    return any(_computes(module, one, kernels=kernels) for place in inner for one in place.instructions.values())
