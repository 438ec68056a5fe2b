"""Naming: the work of an operation of which a profile holds only a name: a GPU kernel's, or XProf's category."""

from __future__ import annotations

from planner.inspect.profile.operation import COLLECTIVES, Operation, kind_of_name


def kernel_operation(name: str) -> Operation:
    """Return the operation of a GPU kernel or copy that names no instruction, by the kernel's own name.

    Examples
    --------
    >>> kernel_operation("ncclDevKernel_AllGather_RING_LL").collective
    'all-gather'
    >>> kernel_operation("MemcpyD2H").kind
    'transfer'
    """
    lower = name.lower()
    if "nccl" in lower or "rccl" in lower:
        plain = lower.replace("_", "")
        op = next((one for one in COLLECTIVES if one.replace("-", "") in plain), "")
        return Operation(name, "collective", collective=op or ("send" if "send" in plain else "collective"))
    if "memcpyd2h" in lower or "memcpyh2d" in lower:
        return Operation(name, "transfer")
    return Operation(name, kind_of_name(lower))


def operation_of_category(name: str, category: str, *, path: str) -> Operation:
    """Return an operation of which the profile holds only a name and XProf's category of it."""
    if not category:
        return operation_of_name(name)
    op = next((one for one in COLLECTIVES if one in category), "")
    if op:
        return Operation(name, "collective", path=path, collective=op)
    if category in ("while", "conditional", "call"):
        return Operation(name, "container", path=path)
    if "convolution" in category or "dot" in category:
        return Operation(name, "product", path=path)
    named = kernel_operation(f"{name} {path}" if category == "custom-call" else name)
    return Operation(name, named.kind if named.kind == "attention" else "memory", path=path)


def operation_of_name(name: str) -> Operation:
    """Return an operation of a program whose HLO the profile lacks."""
    named = kernel_operation(name)
    opcode = name.split(".", maxsplit=1)[0].replace("_", "-").removesuffix("-start").removesuffix("-done")
    if opcode in ("while", "conditional", "call"):
        return Operation(name, "container")
    opcode = {"ppermute": "collective-permute", "psum": "all-reduce"}.get(opcode, opcode)
    collective = next((op for op in COLLECTIVES if opcode.startswith(op)), "")
    if collective:
        return Operation(name, "collective", collective=collective)
    return Operation(name, "product") if opcode.startswith(("dot", "convolution")) else Operation(name, named.kind)
