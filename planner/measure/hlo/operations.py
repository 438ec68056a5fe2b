"""An executable's operations in the order of its schedule, with the work of each, for an estimate of its time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from lcplan.evidence.execution import Branch, Done, Execution, Item, Kernel, Loop, Message
from planner.measure.hlo.attention import attention_kernel
from planner.measure.hlo.executable import CollectiveWalk, callees, continues
from planner.measure.hlo.groups import Groups, MeshView, source_target_pairs
from planner.measure.hlo.loops import trip_count
from planner.measure.hlo.schedule import ASYNC_FUSION, ASYNC_FUSION_DONE, COLLECTIVE_OPS
from planner.measure.hlo.text import Computation, Instruction, Module
from planner.measure.hlo.work import fused_products, main_bytes, product_flop, traffic

_FREE = {
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id", "replica-id", "domain",
    "opt-barrier", "add-dependency", "optimization-barrier", "get-dimension-size", "iota-done", "recv", "recv-done", "send",
    "send-done", "copy-done", "rng-get-and-update-state",
}  # fmt: skip
_HOST = re.compile(r"S\(5\)")
_NO_WORK = re.compile(
    r'custom_call_target="(Sharding|AllocateBuffer|AssumeGatherIndicesInBound|.*[Pp]in|MoveTo\w*|annotate\w*|ShardBarrier\w*)"'
)


def read_execution(module: Module, *, mesh: MeshView, walk: CollectiveWalk) -> Execution:
    """Operations of an executable, equal neighbours counted together."""
    reader = _Reader(module, mesh, walk)
    items = tuple(reader.items(module.entry))
    return Execution(items=items, unknown=reader.unknown)


@dataclass
class _Reader:
    module: Module
    mesh: MeshView
    walk: CollectiveWalk
    unknown: dict[str, int] = field(default_factory=dict)
    _numbers: int = 0

    def items(self, name: str) -> Iterator[Item]:
        """Items of one computation; equal kernels between two other items are one item with their count."""
        place = self.module.computations.get(name)
        kernels: dict[Kernel, int] = {}
        begun: dict[str, int] = {}
        for instruction in place.instructions.values() if place else ():
            assert place is not None
            for item in self._of(place, instruction, begun):
                if isinstance(item, Kernel):
                    kernels[item] = kernels.get(item, 0) + 1
                    continue
                yield from _counted(kernels)
                kernels = {}
                yield item
        yield from _counted(kernels)

    def _of(self, place: Computation, one: Instruction, begun: dict[str, int]) -> Iterator[Item]:
        opcode = one.opcode
        if opcode.endswith("-done") or one.name.startswith(ASYNC_FUSION_DONE):
            yield from self._ended(one, begun)
        elif opcode.removesuffix("-start") in COLLECTIVE_OPS:
            yield from self._message(place, one, begun, asynchronous=opcode.endswith("-start"))
        elif opcode == "while":
            yield from self._loop(place, one)
        elif opcode == "conditional":
            yield Branch(bodies=tuple(tuple(self.items(name)) for name in one.branches))
        elif opcode == "fusion" and one.name.startswith(ASYNC_FUSION):
            yield from self._fused_message(one, begun)
        elif opcode in ("call", "async-start"):
            for name in callees(one):
                yield from self.items(name)
        elif opcode not in _FREE:
            yield from self._kernel(place, one)

    def _ended(self, one: Instruction, begun: dict[str, int]) -> Iterator[Item]:
        if one.name.startswith(ASYNC_FUSION_DONE):
            names = [name for name in begun if name.startswith(ASYNC_FUSION)][:1]
        else:
            names = [name for name in one.operands if name in begun]
        yield from (Done(number=begun.pop(name)) for name in names)

    def _message(self, place: Computation, one: Instruction, begun: dict[str, int], *, asynchronous: bool) -> Iterator[Item]:
        key = self.walk.key(place, one)
        if key is None:
            return
        op, axis, size, _, _ = key
        pairs = source_target_pairs(one.attributes)
        groups = self.walk.groups(one) if pairs is None else _lines(pairs, self.mesh)
        facts = {"op": op, "axis": axis, "bytes": size, **_span(groups, self.mesh.segment or self.mesh.devices)}
        made = Message.model_validate(facts)
        yield made.model_copy(update={"number": self._begin(one.name, begun)}) if asynchronous else made

    def _begin(self, name: str, begun: dict[str, int]) -> int:
        self._numbers += 1
        begun[name] = self._numbers
        return self._numbers

    def _fused_message(self, one: Instruction, begun: dict[str, int]) -> Iterator[Item]:
        """The collective that a fusion of libtpu begins, and the compute inside the fusion."""
        inside = self.module.computations.get(one.attribute("calls") or "")
        for part in inside.instructions.values() if inside else ():
            if part.opcode.removesuffix("-start") in COLLECTIVE_OPS and inside is not None:
                for item in self._message(inside, part, {}, asynchronous=False):
                    yield item.model_copy(update={"number": self._begin(one.name, begun)})

    def _loop(self, place: Computation, one: Instruction) -> Iterator[Item]:
        body = tuple(self.items(one.attribute("body") or ""))
        if body:
            yield Loop(trips=trip_count(self.module, caller=place, loop=one) or 1, body=body)

    def _kernel(self, place: Computation, one: Instruction) -> Iterator[Item]:
        if one.opcode == "copy-start":
            yield from self._copy(place, one)
            return
        if one.opcode == "custom-call" and _NO_WORK.search(one.attributes):
            return
        attention = attention_kernel(place, one)
        if attention is not None:
            yield attention
            return
        size = float(traffic(self.module, place, one))
        flop, dtype = 0.0, "bf16"
        for work, kind in self._products(place, one):
            flop, dtype = flop + work, kind
        if flop:
            yield Kernel(kind="product", name="product", flop=flop, bytes=size, dtype=dtype)
        elif one.opcode == "custom-call":
            yield from self._custom(one, size)
        elif size:
            name = "fusion" if one.opcode == "fusion" else one.opcode
            yield Kernel(kind="memory", name=name, bytes=size)
        if one.opcode == "fusion" and not continues(self.module, one):
            for name in callees(one):
                yield from self._inner(name)

    def _inner(self, name: str) -> Iterator[Item]:
        """Collectives inside a fusion of libtpu."""
        place = self.module.computations.get(name)
        for part in place.instructions.values() if place else ():
            if part.opcode in COLLECTIVE_OPS and place is not None:
                yield from self._message(place, part, {}, asynchronous=False)

    def _products(self, place: Computation, one: Instruction) -> Iterator[tuple[float, str]]:
        if one.opcode == "fusion":
            for name in callees(one):
                yield from fused_products(self.module, name)
        elif (found := product_flop(place, one)) is not None:
            yield found

    def _custom(self, one: Instruction, size: float) -> Iterator[Item]:
        target = re.search(r'custom_call_target="([^"]*)"', one.attributes)
        name = target[1] if target else "custom-call"
        stated = re.search(r'"cost_estimate":\{[^}]*"flops":"?(\d+)"?', one.attributes)
        if stated:
            yield Kernel(kind="product", name=_short(name), flop=float(stated[1]), bytes=size)
            return
        if name in ("tpu_custom_call", "__gpu$xla.gpu.triton", "mosaic_gpu_v2", "mosaic_gpu") or name.startswith("triton"):
            self.unknown[_short(name)] = self.unknown.get(_short(name), 0) + 1
        yield Kernel(kind="memory", name=_short(name), bytes=size)

    def _copy(self, place: Computation, one: Instruction) -> Iterator[Item]:
        source = place.instructions.get(one.operands[0]) if one.operands else None
        text = one.shape + (source.shape if source is not None else "")
        if source is not None and _HOST.search(text):
            size = main_bytes(source.shape) or main_bytes(re.sub(r"S\(5\)", "", source.shape))
            yield Kernel(kind="host", name="copy to or from the host", bytes=float(size))
        elif source is not None:
            yield Kernel(kind="memory", name="copy", bytes=float(main_bytes(source.shape)))


def _counted(kernels: dict[Kernel, int]) -> Iterator[Item]:
    yield from (kernel.model_copy(update={"calls": count}) for kernel, count in kernels.items())


def _short(name: str) -> str:
    return name if len(name) <= 60 else name[:57] + ".."


def _lines(pairs: Groups, mesh: MeshView) -> Groups:
    """Devices that a permute's messages join, as groups along the axes that it moves over."""
    moving = set(mesh.moving(sorted({device for pair in pairs for device in pair if pair[0] != pair[1]})[:1]))
    for pair in pairs:
        moving |= set(mesh.moving(pair))
    fixed = [index for index, name in enumerate(mesh.names) if name not in moving]
    groups: dict[tuple[int, ...], list[int]] = {}
    for device in range(mesh.devices):
        place = mesh.place(device)
        groups.setdefault(tuple(place[index] for index in fixed), []).append(device)
    return tuple(tuple(group) for group in groups.values())


def _span(groups: Groups, segment: int) -> dict[str, int]:
    """Members, stride, fewest members in a domain and most domains of the groups of one collective."""
    largest = max(groups, key=len)
    ordered = sorted(largest)
    stride = min((b - a for a, b in pairwise(ordered)), default=1)
    inner, crosses = len(largest), 1
    for group in groups:
        domains = [device // segment for device in group]
        crosses = max(crosses, len(set(domains)))
        inner = min(inner, *(domains.count(one) for one in set(domains)))
    return {"members": len(largest), "stride": stride, "inner": max(1, inner), "crosses": crosses}
