"""Facts of a compiled executable: its collectives, their calls per step, its attention kernels. Needs no jax."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from lcplan.evidence.measurement import Schedule
from lcplan.formats.frozen import Frozen
from lcplan.spec.collective import CollectiveUse, Op
from planner.measure.hlo.groups import Groups, Level, MeshView, replica_groups, source_target_pairs
from planner.measure.hlo.loops import trip_count
from planner.measure.hlo.megascale import transfer
from planner.measure.hlo.schedule import COLLECTIVE_OPS, read_schedule
from planner.measure.hlo.text import Computation, Instruction, Module, parse_module, shape_bytes

Kind = Literal["gpu", "rocm", "tpu", "cpu"]
"""``gpu`` is one of NVIDIA's."""
_ALIASES = {"collective-broadcast": "broadcast"}
CALLERS = {"fusion", "async-start", "call", "custom-call"}
_RANKED_WITH_CHANNEL = {"all-gather", "all-reduce", "reduce-scatter"}
"""Ops whose groups list replicas, not devices, where there is a channel but no ``use_global_device_ids``."""


class HloFacts(Frozen):
    """Facts read from an executable's text. ``warnings`` name the parts that could not be read."""

    collectives: tuple[CollectiveUse, ...]
    kernels: tuple[str, ...]
    schedule: Schedule
    warnings: tuple[str, ...] = ()


def read_executable(text: str, *, mesh: MeshView, kind: Kind) -> HloFacts:
    """Collectives a step and attention kernels of ``compiled.as_text()``.

    Calls are multiplied by the trip counts of nested loops. In a conditional, the branch with the most calls of each
    collective counts, since the slowest device takes it. A collective that XLA combined from several counts once, with
    the bytes of all of them.

    Parameters
    ----------
    text
        The executable's text.
    mesh
        The mesh's axes in the order of its devices.
    kind
        The kind of device that it is compiled for; names the backend where the text does not.

    Raises
    ------
    ValueError
        The text is not that of an executable.
    """
    walk = CollectiveWalk(parse_module(text), mesh, kind)
    calls = walk.calls(walk.module.entry)
    uses = [
        CollectiveUse(op=op, axis=axis, bytes=size, calls=count, backend=backend, level=level)
        for (op, axis, size, backend, level), count in calls.items()
        if count
    ]
    uses.sort(key=lambda use: (-use.total_bytes, use.op, use.axis, use.bytes, use.backend or "", use.level or ""))
    return HloFacts(
        collectives=tuple(uses),
        kernels=_kernels(text),
        schedule=read_schedule(walk.module),
        warnings=tuple(dict.fromkeys(walk.warnings)),
    )


_Key = tuple[Op, str, int, str, Level | None]


@dataclass(frozen=True)
class CollectiveWalk:
    """Counts calls from the entry down; each computation once."""

    module: Module
    mesh: MeshView
    kind: Kind
    warnings: list[str] = field(default_factory=list)
    _done: dict[str, Counter[_Key]] = field(default_factory=dict)

    def calls(self, name: str) -> Counter[_Key]:
        """Calls of each collective in one run of a computation."""
        if name not in self._done:
            self._done[name] = Counter()
            place = self.module.computations.get(name)
            if place is not None:
                self._done[name] = self._count(place)
        return self._done[name]

    def _count(self, place: Computation) -> Counter[_Key]:
        total: Counter[_Key] = Counter()
        for instruction in place.instructions.values():
            opcode = instruction.opcode
            op = opcode.removesuffix("-start")
            if op in COLLECTIVE_OPS:
                key = self.key(place, instruction)
                total.update({key: 1} if key else {})
            elif opcode == "send" and self.mesh.segment:
                total.update(self._between_slices(place, instruction))
            elif opcode == "while":
                total.update(self._loop(place, instruction))
            elif opcode == "conditional":
                total.update(self._branches(instruction))
            elif opcode in CALLERS and not continues(self.module, instruction):
                for callee in callees(instruction):
                    total.update(self.calls(callee))
        return total

    def _between_slices(self, place: Computation, send: Instruction) -> Counter[_Key]:
        found = transfer(send.attributes, self.mesh)
        return Counter({(*found, _bytes(place, send, width=1), "dcn", "network"): 1} if found else {})

    def _loop(self, place: Computation, loop: Instruction) -> Counter[_Key]:
        inside = self.calls(loop.attribute("body") or "")
        if not inside:
            return inside
        trips = trip_count(self.module, caller=place, loop=loop)
        if trips is None:
            self.warnings.append(f"loop {loop.name}: trip count not in the executable; its collectives are counted once")
            trips = 1
        return Counter({key: calls * trips for key, calls in inside.items()})

    def _branches(self, conditional: Instruction) -> Counter[_Key]:
        most: Counter[_Key] = Counter()
        for name in conditional.branches:
            most |= self.calls(name)
        return most

    def key(self, place: Computation, instruction: Instruction) -> _Key | None:
        """(op, axis, bytes, backend, level); None where it joins no two devices."""
        opcode = _meaning(place, instruction)
        op: Op = _ALIASES.get(opcode, opcode)  # type: ignore[assignment]
        pairs = source_target_pairs(instruction.attributes)
        level = self.mesh.level(pairs if pairs is not None else self.groups(instruction))
        if pairs is not None:
            width, axis = (
                len({device for pair in pairs for device in pair if pair[0] != pair[1]}),
                self.mesh.axis_of_pairs(pairs),
            )
        else:
            groups = self.groups(instruction)
            width, axis = max(len(group) for group in groups), self.mesh.axis_of_groups(groups)
        if width <= 1:
            return None
        return op, axis, _bytes(place, instruction, width=width), _backend(instruction, self.kind), level

    def groups(self, instruction: Instruction) -> Groups:
        """Device groups of a collective."""
        everyone = (tuple(range(self.module.devices)),)
        attributes = instruction.attributes
        ranked = instruction.opcode.removesuffix("-start") in _RANKED_WITH_CHANNEL and "channel_id=" in attributes
        if ranked and "use_global_device_ids=true" not in attributes:
            return everyone
        return replica_groups(attributes, self.module.devices) or everyone


def callees(instruction: Instruction) -> tuple[str, ...]:
    """Computations that an instruction runs."""
    single = (instruction.attribute("calls"), instruction.attribute("to_apply"))
    return tuple(name for name in single if name) + instruction.called("called_computations")


def continues(module: Module, fusion: Instruction) -> bool:
    """Whether a TPU fusion only continues or ends a collective that an ``async-collective-start`` fusion began.

    libtpu repeats the collective in each fusion that overlaps with it, all of one chain; only the first is a call.
    """
    inside = module.computations.get(fusion.attribute("calls") or "")
    if inside is None or fusion.opcode != "fusion" or "async-collective-start" in fusion.name:
        return False
    return any("chain_id=" in part.attributes and part.opcode in COLLECTIVE_OPS for part in inside.instructions.values())


def _meaning(place: Computation, instruction: Instruction) -> str:
    """The op; libtpu writes a reduce-scatter as a fusion ``all-reduce-scatter`` of an all-reduce and the slice that is kept."""
    opcode = instruction.opcode.removesuffix("-start")
    sliced = opcode == "all-reduce" and place.name.startswith("all-reduce-scatter")
    return "reduce-scatter" if sliced else opcode


def _bytes(place: Computation, instruction: Instruction, *, width: int) -> int:
    """The larger side of the operand, as CollectiveUse defines it; from the operands' shapes."""
    opcode = instruction.opcode.removesuffix("-start")
    operands = [place.instructions[name] for name in instruction.operands if name in place.instructions]
    if _meaning(place, instruction) == "reduce-scatter":  # without libtpu's padding
        operands = [place.instructions.get(o.operands[0], o) if o.opcode == "pad" else o for o in operands]
    known = [operand.shape for operand in operands]
    sizes = [shape_bytes(shape) for shape in known]
    if opcode == "all-gather":
        return sum(sizes) * width
    if opcode == "ragged-all-to-all":
        return max(sizes[:2], default=0)
    sliced = re.search(r"slice_sizes=\{\{?([\d,]+)", instruction.attributes)
    if opcode == "collective-permute" and sliced and known:
        element = known[0].lstrip("( ").split("[")[0]
        return shape_bytes(f"{element}[{sliced[1]}]")
    return sum(sizes)


def _backend(instruction: Instruction, kind: Kind) -> str:
    if kind != "gpu":
        return {"rocm": "rccl", "tpu": "ici", "cpu": "host"}[kind]
    if '"backend":"NVSHMEM"' in instruction.attributes:
        return "nvshmem"
    mode = re.search(r'"collectives_mode":"COLLECTIVES_(\w+)_MEMORY"', instruction.attributes)
    return {"SYMMETRIC": "symmetric", "PEER": "peer"}.get(mode[1] if mode else "", "nccl")


def _kernels(text: str) -> tuple[str, ...]:
    """Attention kernels: cuDNN's fused attention, jax's splash attention; ``blockwise`` where there is neither."""
    found = ["cudnn"] if "__cudnn$fmha" in text else []
    calls = [line for line in text.splitlines() if "tpu_custom_call" in line]
    found += ["splash"] if any("splash" in line for line in calls) else []
    return tuple(found) or ("blockwise",)
