"""Operation: one HLO instruction of a profiled program, with its place in the source program and its device groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

from lcplan.spec.collective import Op
from planner.inspect.profile.messages import message_class
from planner.measure.hlo.groups import Groups, iota_groups

Kind = Literal["product", "attention", "memory", "collective", "transfer", "container", "unknown"]
"""The work of an operation. ``transfer``: over the link to the host. ``container``: a loop, a branch or a call, whose own
operations are events too. ``unknown``: the profile holds no HLO of it, and its name is not known."""

COLLECTIVES = (*(op for op in get_args(Op) if op != "broadcast"), "collective-broadcast", "send", "recv")
"""HLO's own ``broadcast`` only repeats a value on its device."""
_CONTAINERS = {"while", "conditional", "call"}
_INLINE = {"fusion", "async-start", "custom-call"}
"""Opcodes whose computations run as part of the operation."""
_PRODUCTS = {"dot", "convolution", "ragged-dot", "scaled-dot"}

_PRODUCT_TARGETS = ("cublas", "gemm", "matmul", "cutlass", "nvjet", "xmma")
_ATTENTION_TARGETS = ("fmha", "flash", "splash", "mha", "sdpa")
_MEMORY_NAMES = (
    "loop_",
    "input_",
    "wrapped_",
    "transpose",
    "copy",
    "convert",
    "reduce",
    "broadcast",
    "memcpy",
    "memset",
    "slice",
    "concatenate",
)
"""Words in the names that XLA gives kernels which multiply nothing."""


@dataclass(frozen=True)
class Operation:
    """One instruction. ``path`` is jax's name of its place: ``jit(step)/transpose(jvp(attention))/dot_general``."""

    name: str
    kind: Kind
    path: str = ""
    source: str = ""
    """``file:line`` in the source program."""
    collective: str = ""
    """Opcode of a collective, without ``-start`` or ``-done``."""
    groups: Groups = ()
    pairs: Groups = ()
    """Groups of a collective, or the pairs of a permute."""


def operations_of(serialized: bytes) -> tuple[str, dict[str, Operation]]:
    """Return a program's name and its operations by name, from a serialized ``HloProto``.

    Raises
    ------
    google.protobuf.message.DecodeError
        The bytes are no ``HloProto``.
    """
    module = message_class("HloProto").FromString(serialized).hlo_module
    reader = _Reader({one.id: one for one in module.computations}, module.stack_frame_index)
    found = (reader.operation(one) for place in module.computations for one in place.instructions)
    return module.name, {one.name: one for one in found}


def kind_of_name(lower: str) -> Kind:
    """Return the work of a kernel or custom call by its name in lower case."""
    if any(word in lower for word in _ATTENTION_TARGETS):
        return "attention"
    if any(word in lower for word in _PRODUCT_TARGETS):
        return "product"
    return "memory" if any(word in lower for word in _MEMORY_NAMES) else "unknown"


@dataclass(frozen=True)
class _Reader:
    computations: dict[int, Any]
    frames: Any
    """Files and lines, which operations name by number."""

    def operation(self, one: Any) -> Operation:
        inside = list(self._inside(one))
        collective = next((found for part in inside if (found := _collective(part.opcode))), "")
        placed = next((part for part in inside if _is_product(part) and part.metadata.op_name), None)
        path = (placed or one).metadata.op_name or _most_common(part.metadata.op_name for part in inside)
        sources = (self._source(part.metadata) for part in (placed or one, *inside))
        start = self._start(one) if collective else None
        groups, pairs = _members(inside if start is None else list(self._inside(start)))
        return Operation(
            name=one.name,
            kind="collective" if collective else self._kind(one, inside),
            path=path,
            source=next((source for source in sources if source), ""),
            collective=collective,
            groups=groups,
            pairs=pairs,
        )

    def _kind(self, one: Any, inside: list[Any]) -> Kind:
        if one.opcode in _CONTAINERS:
            return "container"
        calls = [part for part in inside if part.opcode == "custom-call"]
        named = {kind_of_name(f"{part.custom_call_target} {part.metadata.op_name}".lower()) for part in calls}
        if "attention" in named:
            return "attention"
        return "product" if "product" in named or any(part.opcode in _PRODUCTS for part in inside) else "memory"

    def _inside(self, one: Any) -> Iterator[Any]:
        """Yield the instruction, and those of the computations that run as part of it."""
        yield one
        if one.opcode in _INLINE:
            for number in one.called_computation_ids:
                place = self.computations.get(number)
                for part in place.instructions if place is not None else ():
                    yield from self._inside(part)

    def _source(self, metadata: Any) -> str:
        """Return ``file:line`` of the innermost frame of the user's program; all numbers count from one."""
        if metadata.source_file:
            return f"{metadata.source_file}:{metadata.source_line}"
        try:
            frame = self.frames.stack_frames[metadata.stack_frame_id - 1] if metadata.stack_frame_id else None
            place = self.frames.file_locations[frame.file_location_id - 1] if frame else None
            return f"{self.frames.file_names[place.file_name_id - 1]}:{place.line}" if place else ""
        except IndexError:
            return ""

    def _start(self, one: Any) -> Any | None:
        """Return the instruction that began the operation of a ``-done``."""
        if not one.opcode.endswith("-done") or not one.operand_ids:
            return None
        return self._by_id.get(one.operand_ids[0])

    @cached_property
    def _by_id(self) -> dict[int, Any]:
        return {part.id: part for place in self.computations.values() for part in place.instructions}


def _is_product(part: Any) -> bool:
    return part.opcode in _PRODUCTS


def _collective(opcode: str) -> str:
    op = opcode.removesuffix("-start").removesuffix("-done")
    return op if op in COLLECTIVES else ""


def _most_common(paths: Iterator[str]) -> str:
    counted = Counter(path for path in paths if path)
    return counted.most_common(1)[0][0] if counted else ""


def _members(inside: list[Any]) -> tuple[Groups, Groups]:
    """Return the groups of the first collective inside, and a permute's pairs."""
    for part in inside:
        pairs = tuple((pair.source, pair.target) for pair in part.source_target_pairs)
        listed = part.replica_groups or part.collective_device_list.replica_groups
        groups = tuple(tuple(group.replica_ids) for group in listed)
        iota = part.collective_device_list.iota
        if not groups and iota.num_devices_per_group:
            groups = iota_groups(iota.reshape_dims, iota.transpose_perm, width=iota.num_devices_per_group)
        if groups or pairs:
            return groups, pairs
    return (), ()
