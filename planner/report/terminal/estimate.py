"""What ``lcplan estimate`` shows of one strategy."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lcplan.evidence.measurement import Compiled
from lcplan.formats.units import format_bytes, format_count, format_seconds
from lcplan.spec.collective import CollectiveUse
from planner.candidates.candidate import Candidate
from planner.report.terminal.candidates import breakdown
from planner.report.terminal.evidence_marks import LEGEND, MARKS
from planner.report.terminal.search import headline
from planner.request.request import SearchRequest


def estimate_view(candidate: Candidate, request: SearchRequest, notes: tuple[str, ...]) -> Group:
    """The strategy, whether it fits, where bytes and seconds go, and what the executable says."""
    return Group(*_sections(candidate, request, notes))


def _sections(candidate: Candidate, request: SearchRequest, notes: tuple[str, ...]) -> Iterator[RenderableType]:
    yield headline(request)
    yield Text(f"\n{candidate.strategy.label}", style="bold")
    yield verdict(candidate, request)
    yield speed(candidate)
    memory = {name: value for name, value in candidate.estimate["memory_bytes"].items() if name != "total"}
    yield Text("\nMemory by part (modelled)", style="dim")
    yield Padding(breakdown(memory, "bytes"), (0, 0, 0, 2))
    yield Text("Step time by part (modelled)", style="dim")
    yield Padding(breakdown(dict(candidate.estimate["time_s"]), "seconds"), (0, 0, 0, 2))
    if candidate.compiled is not None:
        yield from _compiled(candidate.compiled, candidate)
    yield Text(LEGEND, style="dim")
    for note in notes:
        yield Text(f"note: {note}", style="yellow")


def verdict(candidate: Candidate, request: SearchRequest) -> Text:
    """Fits or not, with the numbers."""
    best, allowance = candidate.best, candidate.estimate["allowance_bytes"]
    need = best.memory_bytes + allowance
    beside = "runtime, communicators and PyTorch's pool" if request.program.runtime == "torch" else "runtime and communicators"
    text = (
        f"memory {format_bytes(best.memory_bytes)} {MARKS[best.rung]} + {format_bytes(allowance)} for {beside} = "
        f"{format_bytes(need)} of {format_bytes(request.budget_bytes)}: "
    )
    if need <= request.budget_bytes:
        return Text(text + "fits", style="green")
    return Text(text + f"does not fit, {format_bytes(need - request.budget_bytes)} over", style="red")


def speed(candidate: Candidate) -> Text:
    """Step time and rates."""
    best, estimate = candidate.best, candidate.estimate
    return Text(
        f"step {format_seconds(best.step_s)}, {format_count(best.tokens_per_s)} tokens/s, "
        f"{estimate['tflop_per_s_per_device']:.0f} TFLOP/s a device by the laws (MFU {estimate['mfu_ratio']:.0%}, causal FLOPs)"
    )


def _compiled(compiled: Compiled, candidate: Candidate) -> Iterator[RenderableType]:
    yield Text(
        f"\nCompiled for {compiled.target} with jax {compiled.jax} in {compiled.compile_s:.1f} s ({compiled.rung})",
        style="bold",
    )
    if compiled.error or compiled.total_bytes is None:
        yield Text(f"failed: {compiled.error}", style="red")
        return
    modelled = candidate.estimate["memory_bytes"]["total"]
    yield Text(
        f"argument {format_bytes(compiled.argument_bytes or 0)}, temp {format_bytes(compiled.temp_bytes or 0)}, "
        f"total {format_bytes(compiled.total_bytes)} (modelled {format_bytes(modelled)}, "
        f"{modelled / compiled.total_bytes - 1:+.1%}); "
        f"attention by {', '.join(compiled.kernels) or 'no known kernel'}"
    )
    yield collective_table(compiled.collectives)
    for warning in compiled.warnings:
        yield Text(f"warning: {warning}", style="yellow")


def collective_table(uses: tuple[CollectiveUse, ...]) -> Table:
    """Every collective of the executable, most bytes a step first."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("collective", "axis", "backend"):
        table.add_column(name, no_wrap=True)
    for name in ("bytes a call", "calls a step", "bytes a step"):
        table.add_column(name, justify="right", no_wrap=True)
    for use in sorted(uses, key=lambda use: -use.total_bytes):
        sizes = [format_bytes(use.bytes), f"{use.calls:,}", format_bytes(use.total_bytes)]
        table.add_row(use.op, use.axis, use.backend or "-", *sizes)
    return table
