"""What ``lcplan search`` shows: the answer, the alternatives, what was rejected and why, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lcplan.formats.units import format_bytes, format_count, format_seconds
from lcplan.strategy import letters
from planner.candidates.candidate import Candidate
from planner.report.terminal.candidates import breakdown, candidate_table
from planner.report.terminal.evidence_marks import LEGEND, MARKS
from planner.report.terminal.tuning import tuning_view
from planner.request.request import SearchRequest
from planner.run.result import SearchResult

SHOWN = 10


def headline(request: SearchRequest) -> Text:
    """What was asked, in one line."""
    model, workload, hardware = request.model, request.workload, request.hardware
    devices = f"{request.devices}" if request.devices else f"up to {hardware.devices}"
    active = f" ({format_count(model.active_parameters)} active)" if model.experts is not None else ""
    return Text(
        f"{model.name}, {format_count(model.parameters)} parameters{active}; {workload.description}\n"
        f"{devices} x {hardware.device.name} ({hardware.name}), budget "
        f"{format_bytes(request.budget_bytes)} a device"
    )


def search_view(result: SearchResult) -> Group:
    """The whole answer."""
    return Group(*_sections(result))


def _sections(result: SearchResult) -> Iterator[RenderableType]:
    yield headline(result.request)
    yield Text()
    yield _funnel(result)
    yield Text()
    winner = result.winner
    if result.candidates:
        yield from _candidates(result)
    if winner:
        yield Text()
        yield from winner_view(winner, result.request)
    else:
        yield _nothing(result)
        for change in result.changes:
            yield Text(f"  would fit: {change.says} (step {format_seconds(change.step_s)})")
    if result.tuning:
        yield Text()
        yield tuning_view(result.tuning)
    if result.reasons:
        yield Text()
        yield _rejections(result)
    for note in result.notes:
        yield Text(f"note: {note}", style="yellow")


def _candidates(result: SearchResult) -> Iterator[RenderableType]:
    title = "Best candidates" if result.winner else "Candidates, none of which fits"
    yield candidate_table(result.candidates[:SHOWN], title)
    axes = letters(optional=result.request.model.experts is not None)
    yield Text(f"mesh: devices: {axes};  mb microbatches;  TFLOP/s a device, causal", style="dim")
    yield Text(LEGEND, style="dim")
    for candidate in result.candidates[:SHOWN]:
        yield from _trouble(candidate)


def _nothing(result: SearchResult) -> RenderableType:
    """Why there is no winner: what came closest, or that there was nothing to price."""
    if result.nearest_miss:
        return Group(*([Text()] if result.candidates else []), nearest_miss_view(result.nearest_miss, result.request))
    if result.counts.enumerated:
        return Text("Nothing to price: every strategy breaks a rule", style="yellow")
    return Text("Nothing to price: no mesh of so many devices has the sizes that --mesh asks for", style="yellow")


def _funnel(result: SearchResult) -> Text:
    counts = result.counts
    rejected = sum(counts.rejected.values())
    return Text(
        f"{counts.enumerated:,} strategies: {rejected:,} rejected by rules, {counts.estimated:,} priced, "
        f"{counts.over_budget:,} over budget, {counts.survivors} survivors"
    )


def _trouble(candidate: Candidate) -> Iterator[Text]:
    compiled = candidate.compiled
    if compiled is not None and compiled.error:
        yield Text(f"failed: {candidate.strategy.label}: {compiled.error}", style="red")
    for warning in compiled.warnings if compiled is not None else ():
        yield Text(f"warning: {candidate.strategy.label}: {warning}", style="yellow")


def winner_view(winner: Candidate, request: SearchRequest) -> Iterator[RenderableType]:
    """Where the winner's bytes and seconds go."""
    best, estimate = winner.best, winner.estimate
    yield Text(f"Winner: {winner.strategy.label}", style="bold green")
    yield Text(
        f"step {format_seconds(best.step_s)}, {format_count(best.tokens_per_s)} tokens/s, "
        f"{estimate['tflop_per_s_per_device']:.0f} TFLOP/s a device by the laws (MFU {estimate['mfu_ratio']:.0%}, causal FLOPs)"
    )
    yield Text(
        f"memory {format_bytes(best.memory_bytes)} {MARKS[best.rung]} + "
        f"{format_bytes(estimate['allowance_bytes'])} for runtime and "
        f"communicators, of {format_bytes(request.budget_bytes)}"
    )
    memory = {name: value for name, value in estimate["memory_bytes"].items() if name != "total"}
    yield Text("\nMemory by part (modelled)", style="dim")
    yield Padding(breakdown(memory, "bytes"), (0, 0, 0, 2))
    yield Text("Step time by part (modelled)", style="dim")
    yield Padding(breakdown(dict(estimate["time_s"]), "seconds"), (0, 0, 0, 2))


def nearest_miss_view(miss: Candidate, request: SearchRequest) -> Text:
    """What came closest, and by how much it missed."""
    need = miss.best.memory_bytes + miss.estimate["allowance_bytes"]
    return Text(
        f"Nearest miss: {miss.strategy.label} needs {format_bytes(need)} a device, "
        f"{format_bytes(need - request.budget_bytes)} over "
        f"the budget of {format_bytes(request.budget_bytes)}",
        style="yellow",
    )


def _rejections(result: SearchResult) -> Table:
    table = Table(
        title="Rejected, by the first rule that each breaks", title_justify="left", title_style="bold", box=None, pad_edge=False
    )
    table.add_column("rule", no_wrap=True, style="dim")
    table.add_column("strategies", justify="right", no_wrap=True)
    table.add_column("for example")
    for rule, count in sorted(result.counts.rejected.items(), key=lambda item: -item[1]):
        table.add_row(rule, f"{count:,}", result.reasons.get(rule, ""))
    return table
