"""The output of ``lcplan estimate`` for one strategy."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from lcplan.evidence.measurement import Compiled
from lcplan.formats.units import format_bytes
from lcplan.spec.collective import CollectiveUse
from planner.candidates.candidate import Candidate
from planner.report.terminal.candidates import parts
from planner.report.terminal.headline import headline
from planner.report.terminal.tables import FittedTable, plain
from planner.report.view import performance
from planner.report.view.marks import LEGEND
from planner.request.request import SearchRequest


def estimate_view(candidate: Candidate, request: SearchRequest, notes: tuple[str, ...]) -> Group:
    """The strategy, whether it fits, its memory and time by part, and the executable's collectives."""
    return Group(*_sections(candidate, request, notes))


def _sections(candidate: Candidate, request: SearchRequest, notes: tuple[str, ...]) -> Iterator[RenderableType]:
    yield headline(request)
    yield Text(f"\n{candidate.strategy.label}", style="bold")
    yield verdict(candidate, request)
    if words := performance.host(candidate, request.hardware):
        yield Text(words)
    yield speed(candidate)
    yield from bases(candidate)
    yield from parts(candidate)
    if candidate.compiled is not None:
        yield from _compiled(candidate.compiled, candidate)
    yield Text(LEGEND, style="dim")
    for note in notes:
        yield Text(f"note: {note}", style="yellow")


def verdict(candidate: Candidate, request: SearchRequest) -> Text:
    """Fits or not, with the numbers."""
    need, budget = format_bytes(performance.need_bytes(candidate)), format_bytes(request.budget_bytes)
    sums = f"{performance.memory(candidate, request)} = {need} of {budget}: "
    if excess := performance.over(candidate, request):
        return Text(f"{sums}does not fit, {excess}", style="red")
    if candidate.beyond is not None and candidate.beyond.against:
        return Text(f"{sums}{candidate.beyond.against}", style="red")
    return Text(f"{sums}fits", style="green")


def speed(candidate: Candidate) -> Text:
    """Step time and rates."""
    return Text(performance.speed(candidate))


def bases(candidate: Candidate) -> Iterator[Text]:
    """The origin of each half-width."""
    yield from (Text(line, style="dim") for line in performance.bases(candidate))


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


def collective_table(uses: tuple[CollectiveUse, ...]) -> FittedTable:
    """Every collective of the executable, most bytes per step first."""
    table = plain("collective", "axis", "backend", figures=("bytes per call", "calls per step", "bytes per step"))
    for use in sorted(uses, key=lambda use: -use.total_bytes):
        sizes = [format_bytes(use.bytes), f"{use.calls:,}", format_bytes(use.total_bytes)]
        table.add_row(use.op, use.axis, use.backend or "-", *sizes)
    return table
