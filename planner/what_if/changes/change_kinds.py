"""Kinds of change to a request that can make something fit, each from its smallest step up.

A kind gives groups of proposals; of each group the first that fits is the smallest change. Groups of one kind are
alternatives of equal rank (each filter that could be left open is one).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import ceil

from lcplan.formats.units import format_bytes, format_tokens
from lcplan.spec.hardware import HardwareSpec
from lcplan.strategy import AXES, Strategy
from planner.request.filters import AxisFilter, Filters
from planner.request.request import default_global_batch
from planner.request.request_changes import Ask
from planner.space.analysis import setting_of
from planner.what_if.feasible import nearest_miss
from planner.what_if.longest import longest_sequence
from planner.workloads.pricing import need_bytes, table_of

Told = Callable[[Strategy], tuple[str, tuple[str, ...]]]
"""Maps the strategy that then wins to the words and the command line arguments of the change."""

SMALL_CHUNKS = (512, 256, 128)
"""Loss chunks below those of the grid [tokens]; smaller ones would leave the head's product too thin to matter."""
DOMAIN_FACTORS = (2, 4, 8, 16)
MOST_DEVICES = 4096
"""No larger machine is proposed: enumerating its meshes would take longer than the answer is worth."""


@dataclass(frozen=True)
class Proposal:
    """A changed ask, and the function that describes the change."""

    ask: Ask
    told: Told
    pins: str | None = None
    """The filter that takes the winner's value, once there is a winner: it was open only to find the value."""

    def pinned(self, won: Strategy) -> Ask:
        """The changed ask as its description gives it, with the winner's value in place of an open filter."""
        if self.pins is None:
            return self.ask
        if self.pins != "mesh":
            return _with_filters(self.ask, **{self.pins: (won.knob(self.pins),)})
        sizes = zip(AXES, won.mesh.sizes, strict=True)
        return _with_filters(self.ask, mesh={axis: AxisFilter(intervals=((size, size),)) for axis, size in sizes})


Groups = Iterator[Iterable[Proposal]]
Kind = Callable[[Ask], Groups]


def fixed(says: str, *arguments: str) -> Told:
    """The same words and arguments, whatever wins."""
    return lambda _: (says, arguments)


def _with_filters(ask: Ask, **fields: object) -> Ask:
    filters = ask.request.filters.model_copy(update=fields)
    return ask.with_request(ask.request.model_copy(update={"filters": filters}))


def _remat(ask: Ask) -> Groups:
    """A remat policy that the request does not allow; the strategy that then wins decides which."""
    if ask.request.filters.remat:
        shown = ",".join(ask.request.filters.remat)
        yield [Proposal(_with_filters(ask, remat=()), _other_value("remat", shown), "remat")]


def _mesh(ask: Ask) -> Groups:
    """Other axis sizes: each filtered axis left open by itself, then all of them."""
    axes = ask.request.filters.mesh
    freed = [({name: allowed for name, allowed in axes.items() if name != axis}, axis) for axis in axes]
    if len(axes) > 1:
        freed.append(({}, "every axis"))
    for kept, axis in freed:
        yield [Proposal(_with_filters(ask, mesh=kept), _other_mesh(axis), "mesh")]


def _other_mesh(axis: str) -> Told:
    def told(won: Strategy) -> tuple[str, tuple[str, ...]]:
        sizes = ",".join(
            f"{name}={size}" for name, size in zip(AXES, won.mesh.sizes, strict=True) if name != "expert" or size > 1
        )
        return f"--mesh {won.mesh.label} (leaves {axis} open)", ("--mesh", sizes)

    return told


def _other_filters(ask: Ask) -> Groups:
    """Any other knob that the request fixes, left open."""
    for name, value in ask.request.filters.model_dump(exclude_defaults=True, exclude={"mesh", "remat"}).items():
        freed = _with_filters(ask, **{name: Filters.model_fields[name].default})
        yield [Proposal(freed, _other_value(name, ",".join(str(part) for part in value)), name)]


def _other_value(name: str, shown: str) -> Told:
    option = f"--{name.replace('_', '-')}"
    return lambda won: (f"{option} {won.knob(name)} (it is {shown})", (option, str(won.knob(name))))


def _dtypes(ask: Ask) -> Groups:
    """bf16 where the default is fp32: AdamW's moments, gradients in reductions."""
    for name, words in (
        ("moments_dtype", "keep AdamW's moments in bf16"),
        ("reduce_dtype", "reduce gradients in bf16"),
    ):
        if "bf16" not in getattr(ask.request.filters, name):
            option = f"--{name.replace('_', '-')}"
            changed = _with_filters(ask, **{name: ("bf16",)})
            yield [Proposal(changed, fixed(f"{option} bf16 ({words})", option, "bf16"))]


def _loss_chunk(ask: Ask) -> Groups:
    """Fewer tokens whose logits exist at a time."""
    if not ask.request.filters.loss_chunk_tokens:
        yield [
            Proposal(
                _with_filters(ask, loss_chunk_tokens=(chunk,)),
                fixed(f"--loss-chunk-tokens {chunk} (fewer logits at a time)", "--loss-chunk-tokens", str(chunk)),
            )
            for chunk in SMALL_CHUNKS
        ]


def _batch(ask: Ask) -> Groups:
    """Fewer sequences per step, halved until something fits."""
    yield (with_batch(ask, batch) for batch in _halves(ask.request.workload.global_batch))


def _halves(batch: int) -> Iterator[int]:
    while batch > 1:
        batch //= 2
        yield batch


def with_batch(ask: Ask, batch: int, why: str = "fewer tokens per step") -> Proposal:
    """Another number of sequences per step."""
    workload = ask.request.workload.resized(global_batch=batch, given=True)
    changed = ask.with_request(ask.request.model_copy(update={"workload": workload}))
    option = f"--{workload.facts.batch_field.replace('_', '-')}"
    return Proposal(changed, fixed(f"{option} {batch} ({why})", option, str(batch)))


def _sequence(ask: Ask) -> Groups:
    """The longest sequence below that fits."""
    length = longest_sequence(ask)
    if length is not None and length < ask.request.workload.seq_len:
        shown = format_tokens(length)
        changed = ask.with_request(ask.at(seq_len=length))
        yield [Proposal(changed, fixed(f"--seq {shown} (shorter sequences)", "--seq", shown))]


def _devices(ask: Ask) -> Groups:
    """More devices of the hardware, then more domains of it, doubled until something fits."""
    yield [*_same_hardware(ask), *_more_domains(ask)]


def _same_hardware(ask: Ask) -> Iterator[Proposal]:
    count = ask.request.devices or ask.most_devices
    while (count := count * 2) <= ask.request.hardware.devices:
        changed = with_devices(ask, count, hardware=ask.request.hardware)
        yield Proposal(changed, fixed(f"--devices {count} (more devices)", "--devices", str(count)))


def _more_domains(ask: Ask) -> Iterator[Proposal]:
    hardware = ask.request.hardware
    if hardware.network_link is None:
        return
    now = ask.request.devices or ask.most_devices
    limited = ask.request.devices is not None or now < hardware.devices
    for factor in DOMAIN_FACTORS:
        name = _counted(hardware, factor)
        larger = hardware.model_copy(update={"domains": hardware.domains * factor, "name": name})
        if larger.devices > MOST_DEVICES:
            return
        count = now * factor
        devices = ("--devices", str(count)) if limited else ()
        says = f"--hw {name} ({larger.devices} devices)"
        yield Proposal(with_devices(ask, count, hardware=larger), fixed(says, "--hw", name, *devices))


def with_devices(ask: Ask, count: int, *, hardware: HardwareSpec) -> Ask:
    """The ask for this many devices of ``hardware``; the default batch follows."""
    request = ask.request
    workload = request.workload
    if not workload.global_batch_given:
        batch = default_global_batch(workload.seq_len, hardware, count)
        workload = workload.resized(global_batch=batch)
    exact = count if request.devices is not None else None
    changed = request.model_copy(update={"hardware": hardware, "devices": exact, "workload": workload})
    return Ask(changed, ask.backends, count)


def _counted(hardware: HardwareSpec, factor: int) -> str:
    """``dgx-h100x4`` by 2 is ``dgx-h100x8``; a segment behind it stays.

    >>> from lcplan.catalog import hardware
    >>> _counted(hardware("dgx-h100x4"), 2), _counted(hardware("gb200-nvl72x16:64"), 2)
    ('dgx-h100x8', 'gb200-nvl72x32:64')
    """
    name, colon, segment = hardware.name.partition(":")
    counted = re.fullmatch(rf"(.+)x{hardware.domains}", name) if hardware.domains > 1 else None
    return f"{counted[1] if counted else name}x{hardware.domains * factor}{colon}{segment}"


def _budget(ask: Ask) -> Groups:
    """The least budget that is enough, where the device has so much memory."""
    miss, request = nearest_miss(ask), ask.request
    if miss is None:
        return
    setting = setting_of(request)
    need = ceil(need_bytes(setting, table_of(setting, [miss.strategy]))[0])
    memory = int(request.hardware.device.hbm_bytes.value)
    if request.budget_bytes < need <= memory:
        says = f"--budget {need} ({format_bytes(need)} of the device's {format_bytes(memory)})"
        changed = ask.with_request(request.model_copy(update={"budget_bytes": need}))
        yield [Proposal(changed, fixed(says, "--budget", str(need)))]


KINDS: dict[str, Kind] = {
    "remat": _remat,
    "mesh": _mesh,
    "filters": _other_filters,
    "dtype": _dtypes,
    "loss-chunk": _loss_chunk,
    "batch": _batch,
    "sequence": _sequence,
    "devices": _devices,
    "budget": _budget,
}
"""Every kind by name."""
