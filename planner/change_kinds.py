"""Kinds of change to a request that can make something fit, each from its smallest step up.

A kind gives groups of proposals; of each group the first that fits is the smallest change. Groups of one kind are
alternatives of equal standing (each filter that could be left open is one).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from lcplan.hardware import HardwareSpec
from lcplan.strategy import AXES, Strategy
from lcplan.units import format_bytes, format_tokens
from planner.analyse import setting_of
from planner.feasible import nearest_miss, need_bytes
from planner.filters import AxisFilter, Filters
from planner.request import SearchRequest, default_global_batch
from planner.what_if.ask import Ask
from planner.what_if.longest import longest_sequence

Told = Callable[[Strategy], tuple[str, tuple[str, ...]]]
"""From the strategy that then wins to the words and the command line arguments of the change."""

SMALL_CHUNKS = (512, 256, 128)
"""Loss chunks below those of the grid [tokens]; smaller ones would leave the head's product too thin to matter."""
DOMAIN_FACTORS = (2, 4, 8, 16)


@dataclass(frozen=True)
class Proposal:
    """A changed request, and how to say what changed. ``most_devices`` is its limit where it has no exact count."""

    request: SearchRequest
    most_devices: int | None
    told: Told
    pins: str | None = None
    """The filter that takes the winner's value, once there is one: what was open only to find it."""

    def pinned(self, won: Strategy) -> SearchRequest:
        """The changed request as ``told`` says it, with the winner's value in place of an open filter."""
        if self.pins is None:
            return self.request
        if self.pins != "mesh":
            return _with_filters(self.request, **{self.pins: (getattr(won, self.pins),)})
        sizes = zip(AXES, won.mesh.sizes, strict=True)
        return _with_filters(self.request, mesh={axis: AxisFilter(intervals=((size, size),)) for axis, size in sizes})


Groups = Iterator[Iterable[Proposal]]
Kind = Callable[[SearchRequest, tuple[str, ...], int | None], Groups]


def _fixed(says: str, *arguments: str) -> Told:
    return lambda _: (says, arguments)


def _with_filters(request: SearchRequest, **fields: object) -> SearchRequest:
    return request.model_copy(update={"filters": request.filters.model_copy(update=fields)})


def _remat(request: SearchRequest, _: tuple[str, ...], most: int | None) -> Groups:
    """A remat policy that the request does not let in; the strategy that then wins says which."""
    if request.filters.remat:
        shown = ",".join(request.filters.remat)
        yield [Proposal(_with_filters(request, remat=()), most, _other_value("remat", shown), "remat")]


def _mesh(request: SearchRequest, _: tuple[str, ...], most: int | None) -> Groups:
    """Other axis sizes: each filtered axis left open by itself, then all of them."""
    axes = request.filters.mesh
    freed = [({name: allowed for name, allowed in axes.items() if name != axis}, axis) for axis in axes]
    if len(axes) > 1:
        freed.append(({}, "every axis"))
    for kept, axis in freed:
        yield [Proposal(_with_filters(request, mesh=kept), most, _other_mesh(axis), "mesh")]


def _other_mesh(axis: str) -> Told:
    def told(won: Strategy) -> tuple[str, tuple[str, ...]]:
        sizes = ",".join(
            f"{name}={size}" for name, size in zip(AXES, won.mesh.sizes, strict=True) if name != "expert" or size > 1
        )
        return f"--mesh {won.mesh.label} (leaves {axis} open)", ("--mesh", sizes)

    return told


def _other_filters(request: SearchRequest, _: tuple[str, ...], most: int | None) -> Groups:
    """Any other knob that the request fixes, left open."""
    for name, value in request.filters.model_dump(exclude_defaults=True, exclude={"mesh", "remat"}).items():
        freed = _with_filters(request, **{name: Filters.model_fields[name].default})
        yield [Proposal(freed, most, _other_value(name, ",".join(str(part) for part in value)), name)]


def _other_value(name: str, shown: str) -> Told:
    option = f"--{name.replace('_', '-')}"
    return lambda won: (f"{option} {getattr(won, name)} (it is {shown})", (option, str(getattr(won, name))))


def _dtypes(request: SearchRequest, _: tuple[str, ...], most: int | None) -> Groups:
    """bf16 where the default is fp32: AdamW's moments, gradients in reductions."""
    for name, words in (
        ("moments_dtype", "keep AdamW's moments in bf16"),
        ("reduce_dtype", "reduce gradients in bf16"),
    ):
        if "bf16" not in getattr(request.filters, name):
            option = f"--{name.replace('_', '-')}"
            changed = _with_filters(request, **{name: ("bf16",)})
            yield [Proposal(changed, most, _fixed(f"{option} bf16 ({words})", option, "bf16"))]


def _loss_chunk(request: SearchRequest, _: tuple[str, ...], most: int | None) -> Groups:
    """Fewer tokens whose logits exist at a time."""
    if not request.filters.loss_chunk_tokens:
        yield [
            Proposal(
                _with_filters(request, loss_chunk_tokens=(chunk,)),
                most,
                _fixed(f"--loss-chunk-tokens {chunk} (fewer logits at a time)", "--loss-chunk-tokens", str(chunk)),
            )
            for chunk in SMALL_CHUNKS
        ]


def _offload(request: SearchRequest, _: tuple[str, ...], most: int | None) -> Groups:
    """Activations or state in host memory, where the step can do that."""
    if "offload" not in Filters.model_fields or getattr(request.filters, "offload", None):
        return
    from cost_models.table import CODES

    for value in CODES.get("offload", ()):
        if str(value) != "none":
            changed = _with_filters(request, offload=(value,))
            yield [Proposal(changed, most, _fixed(f"--offload {value} (to host memory)", "--offload", str(value)))]


def _batch(request: SearchRequest, _: tuple[str, ...], most: int | None) -> Groups:
    """Fewer sequences a step, halved until something fits."""
    yield (_with_batch(request, most, batch) for batch in _halves(request.workload.global_batch))


def _halves(batch: int) -> Iterator[int]:
    while batch > 1:
        batch //= 2
        yield batch


def _with_batch(request: SearchRequest, most: int | None, batch: int) -> Proposal:
    workload = request.workload.model_copy(update={"global_batch": batch, "global_batch_given": True})
    changed = request.model_copy(update={"workload": workload})
    return Proposal(changed, most, _fixed(f"--global-batch {batch} (fewer tokens a step)", "--global-batch", str(batch)))


def _sequence(request: SearchRequest, backends: tuple[str, ...], most: int | None) -> Groups:
    """The longest sequence below that fits."""
    ask = Ask(request, backends, most or request.hardware.devices)
    length = longest_sequence(ask)
    if length is not None and length < request.workload.seq_len:
        shown = format_tokens(length)
        yield [Proposal(ask.at(seq_len=length), most, _fixed(f"--seq {shown} (shorter sequences)", "--seq", shown))]


def _devices(request: SearchRequest, _: tuple[str, ...], most: int | None) -> Groups:
    """More devices of the hardware, then more domains of it, doubled until something fits."""
    now = request.devices or most
    yield [*_same_hardware(request, now), *_more_domains(request, now)]


def _same_hardware(request: SearchRequest, now: int | None) -> Iterator[Proposal]:
    count = now or request.hardware.devices
    while (count := count * 2) <= request.hardware.devices:
        changed = request.model_copy(update={"devices": count if request.devices else None})
        yield Proposal(changed, count, _fixed(f"--devices {count} (more devices)", "--devices", str(count)))


def _more_domains(request: SearchRequest, now: int | None) -> Iterator[Proposal]:
    hardware = request.hardware
    if hardware.network_link is None:
        return
    for factor in DOMAIN_FACTORS:
        name = _counted(hardware, factor)
        larger = hardware.model_copy(update={"domains": hardware.domains * factor, "name": name})
        count = now * factor if now else None
        changed = request.model_copy(update={"hardware": larger, "devices": count if request.devices else None})
        if not request.workload.global_batch_given:
            batch = default_global_batch(request.workload.seq_len, larger, count)
            changed = changed.model_copy(update={"workload": request.workload.model_copy(update={"global_batch": batch})})
        devices = ("--devices", str(count)) if count else ()
        yield Proposal(changed, count, _fixed(f"--hw {name} ({larger.devices} devices)", "--hw", name, *devices))


def _counted(hardware: HardwareSpec, factor: int) -> str:
    """``dgx-h100x4`` by 2 is ``dgx-h100x8``."""
    counted = re.fullmatch(rf"(.+)x{hardware.domains}", hardware.name) if hardware.domains > 1 else None
    return f"{counted[1] if counted else hardware.name}x{hardware.domains * factor}"


def _budget(request: SearchRequest, backends: tuple[str, ...], most: int | None) -> Groups:
    """The least budget that is enough, where the device has so much memory."""
    miss = nearest_miss(request, backends, most)
    if miss is None:
        return
    from cost_models.table import StrategyTable

    need = -int(-need_bytes(setting_of(request), StrategyTable.from_strategies([miss.strategy]))[0] // 1)
    memory = int(request.hardware.device.hbm_bytes.value)
    if request.budget_bytes < need <= memory:
        says = f"--budget {need} ({format_bytes(need)} of the device's {format_bytes(memory)})"
        yield [Proposal(request.model_copy(update={"budget_bytes": need}), most, _fixed(says, "--budget", str(need)))]


KINDS: dict[str, Kind] = {
    "remat": _remat,
    "mesh": _mesh,
    "filters": _other_filters,
    "dtype": _dtypes,
    "loss-chunk": _loss_chunk,
    "offload": _offload,
    "batch": _batch,
    "sequence": _sequence,
    "devices": _devices,
    "budget": _budget,
}
"""Every kind by name."""
