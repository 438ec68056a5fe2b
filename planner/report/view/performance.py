"""Figures of one candidate as text, on the best evidence there is, and the sentences made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cost_models.parts.find import memory_label, time_label
from lcplan.evidence.measurement import Rung
from lcplan.formats.units import format_bytes, format_count, format_seconds
from lcplan.spec.hardware import HardwareSpec
from planner.candidates.candidate import Candidate
from planner.report.view.marks import MARKS
from planner.request.request import SearchRequest

LEAST_SHARE = 0.001
"""A part below this share of the whole is left out of a breakdown."""


@dataclass(frozen=True)
class Performance:
    """A candidate's step time, rates and memory as text, each time and memory with the evidence that it rests on."""

    step: str
    step_rung: Rung
    tokens_per_s: str
    tflop_per_s: str
    memory: str
    memory_rung: Rung
    step_unsure: str
    """Half-width of the step time; empty where it is 0."""
    memory_unsure: str

    @classmethod
    def of(cls, candidate: Candidate) -> Performance:
        """Read them from the best that is known of ``candidate``."""
        best, estimate = candidate.best, candidate.estimate
        timed = candidate.timed is not None and candidate.timed.step_s is not None
        compiled = candidate.target_compile
        rate = estimate["tflop_per_s_per_device"] * estimate["step_s"] / best.step_s
        return cls(
            step=format_seconds(best.step_s),
            step_rung=best.rung if timed else "modelled",
            tokens_per_s=format_count(best.tokens_per_s),
            tflop_per_s=f"{rate:.0f}",
            memory=format_bytes(best.memory_bytes),
            memory_rung=compiled.rung if compiled else "modelled",
            step_unsure=plus_minus(best.time_ratio),
            memory_unsure=plus_minus(best.memory_ratio),
        )

    @property
    def unsure_step(self) -> str:
        """The step time with its half-width."""
        return f"{self.step} {self.step_unsure}".strip()

    @property
    def marked_step(self) -> str:
        """The step time with its half-width and its mark of evidence."""
        return " ".join(filter(None, (self.step, self.step_unsure, MARKS[self.step_rung])))

    @property
    def marked_memory(self) -> str:
        """The memory with its half-width and its mark of evidence."""
        return " ".join(filter(None, (self.memory, self.memory_unsure, MARKS[self.memory_rung])))


def plus_minus(ratio: float) -> str:
    """A half-width as a person reads it, at least one percent; empty for zero.

    >>> plus_minus(0.124), plus_minus(0.0006), plus_minus(0.0)
    ('±12%', '±1%', '')
    """
    return f"±{max(ratio, 0.01):.0%}" if ratio > 0 else ""


def bases(candidate: Candidate) -> tuple[str, ...]:
    """The origin of each half-width that the candidate's figures have."""
    best, unsure = candidate.best, candidate.estimate.get("uncertainty", {})
    timed = candidate.timed is not None and candidate.timed.step_s is not None
    time = "the spread of its samples" if timed else unsure.get("time_basis", "")
    shown = ((best.time_ratio, time), (best.memory_ratio, unsure.get("memory_basis", "")))
    return tuple(f"{plus_minus(ratio)}: {basis}" for ratio, basis in shown if ratio > 0 and basis)


@dataclass(frozen=True)
class Share:
    """One part of a whole: its label, its amount as text, and its ratio of the whole."""

    label: str
    amount: str
    ratio: float


def memory_shares(candidate: Candidate) -> tuple[Share, ...]:
    """The modelled memory by part, largest first."""
    parts = {name: value for name, value in candidate.estimate["memory_bytes"].items() if name != "total"}
    return _shares(parts, memory_label, show=format_bytes)


def time_shares(candidate: Candidate) -> tuple[Share, ...]:
    """The modelled step time by part, largest first."""
    return _shares(candidate.estimate["time_s"], time_label, show=format_seconds)


def _shares(parts: Mapping[str, float], label: Callable[[str], str], *, show: Callable[[float], str]) -> tuple[Share, ...]:
    whole = sum(parts.values()) or 1.0
    ordered = sorted(parts.items(), key=lambda item: -item[1])
    return tuple(Share(label(key), show(value), value / whole) for key, value in ordered if abs(value / whole) >= LEAST_SHARE)


def need_bytes(candidate: Candidate) -> float:
    """Memory with the allowance for runtime and communicators, which the budget has to hold."""
    return float(candidate.best.memory_bytes + candidate.estimate["allowance_bytes"])


def headroom(candidate: Candidate, budget_bytes: float) -> str:
    """The part of the budget that stays free, or the excess over it."""
    free = budget_bytes - need_bytes(candidate)
    return format_bytes(free) if free >= 0 else f"-{format_bytes(-free)}"


def host_bytes(candidate: Candidate) -> float:
    """Memory of its host that each device takes with offloaded tensors [bytes]."""
    return float(candidate.estimate.get("host_bytes", 0))


def host(candidate: Candidate, hardware: HardwareSpec) -> str:
    """The host's memory that offloaded tensors take, per device and per host; empty where nothing is offloaded."""
    each = host_bytes(candidate)
    if not each:
        return ""
    devices = min(hardware.node_size, candidate.strategy.devices)
    share = hardware.device.host_memory_bytes
    there = [f" of {format_bytes(share.value * count)}" if share else "" for count in (1, hardware.node_size)]
    of_host = f"{format_bytes(each * devices)}{there[1]} per host of {devices} device{'s' * (devices > 1)}"
    return f"host memory {format_bytes(each)}{there[0]} per device, {of_host}"


def by_backend(candidate: Candidate) -> str:
    """The modelled step time on each backend of the same plan, fastest first; empty where there is one backend."""
    steps = sorted(candidate.backend_step_s.items(), key=lambda item: item[1])
    return ", ".join(f"{name} {seconds:.4g} s" for name, seconds in steps)


def speed(candidate: Candidate) -> str:
    """Step time and rates, all on the best evidence for the time, in one sentence."""
    shown, estimate = Performance.of(candidate), candidate.estimate
    mfu = estimate["mfu_ratio"] * estimate["step_s"] / candidate.best.step_s
    return (
        f"step {shown.unsure_step}, {shown.tokens_per_s} tokens/s, "
        f"{shown.tflop_per_s} TFLOP/s per device, {shown.step_rung} (MFU {mfu:.0%}, causal FLOPs)"
    )


def short(candidate: Candidate, request: SearchRequest) -> str:
    """The strategy, its step time and memory with marks, and its headroom."""
    shown, free = Performance.of(candidate), headroom(candidate, request.budget_bytes)
    return f"{candidate.strategy.label}: {shown.marked_step} a step, {shown.marked_memory}, {free} free"


def memory(candidate: Candidate, request: SearchRequest) -> str:
    """The executable's memory and the allowance beyond it."""
    torch = request.program.runtime == "torch"
    owners = "runtime, communicators and PyTorch's pool" if torch else "runtime and communicators"
    allowance = format_bytes(candidate.estimate["allowance_bytes"])
    return f"memory {Performance.of(candidate).marked_memory} + {allowance} for {owners}"


def tie(winner: Candidate, ties: Sequence[Candidate]) -> str:
    """Name the ties with the winner, and the reason for which it is preferred."""
    fastest = ties[0]
    ratio = winner.best.step_s / fastest.best.step_s - 1.0
    pace = f"{abs(ratio):.1%} {'faster' if ratio > 0 else 'slower'}" if abs(ratio) >= 0.0005 else "equally fast"
    count = f"{len(ties)} other plan{'s' * (len(ties) > 1)}"
    return (
        f"tie with {count} (fewer devices, less memory and fewer flags decide): "
        f"{fastest.strategy.label} is {pace}, {Performance.of(fastest).memory}"
    )


def over(candidate: Candidate, request: SearchRequest) -> str:
    """Return the excess over the budget in words; empty where the candidate fits."""
    more = need_bytes(candidate) - request.budget_bytes
    return f"{format_bytes(more)} over" if more > 0 else ""


def nearest_miss(candidate: Candidate, request: SearchRequest) -> str:
    """Which strategy came closest, and by how much it missed."""
    return (
        f"Nearest miss: {candidate.strategy.label} needs {format_bytes(need_bytes(candidate))} a device, "
        f"{over(candidate, request)} the budget of {format_bytes(request.budget_bytes)}"
    )
