"""The output of ``lcplan search``: the answer, the alternatives, the rejections with their reasons, and the next steps."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lcplan.formats.units import format_bytes, format_seconds
from lcplan.strategy import letters
from planner.candidates.candidate import Candidate
from planner.report.terminal.candidates import candidate_table, parts
from planner.report.terminal.estimate import bases
from planner.report.terminal.headline import headline
from planner.report.terminal.tables import titled
from planner.report.terminal.tuning import tuning_view
from planner.report.view import performance
from planner.report.view.marks import LEGEND
from planner.report.view.rejections import rejections
from planner.request.request import SearchRequest
from planner.run.result import SearchResult

SHOWN = 10


def search_view(result: SearchResult) -> Group:
    """The whole answer."""
    return Group(*_sections(result))


def _sections(result: SearchResult) -> Iterator[RenderableType]:
    if result.device_use:
        yield Text(result.device_use.says, style="bold yellow")
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
    title = "Best candidates" if result.winner else "Candidates; no candidate fits"
    yield candidate_table(result.candidates[:SHOWN], title)
    axes = letters(optional=result.request.model.experts is not None)
    yield Text(f"mesh: devices: {axes}", style="dim")
    yield Text("mb microbatches;  TFLOP/s per device, causal", style="dim")
    yield Text(LEGEND, style="dim")
    for candidate in result.candidates[:SHOWN]:
        yield from _trouble(candidate)


def _nothing(result: SearchResult) -> RenderableType:
    """Explain why there is no winner: show the nearest miss, or note that there was nothing to price."""
    if result.nearest_miss:
        return Group(*([Text()] if result.candidates else []), _nearest_miss(result.nearest_miss, result.request))
    failed = [candidate for candidate in result.candidates if not candidate.usable]
    if failed:
        return Text(f"No strategy was measured: all {len(failed)} compiles or timings failed, as listed above", style="yellow")
    if result.counts.enumerated:
        return Text("Nothing to price: every strategy breaks a rule", style="yellow")
    return Text("Nothing to price: no mesh of this many devices has the sizes that --mesh asks for", style="yellow")


def _nearest_miss(miss: Candidate, request: SearchRequest) -> Text:
    return Text(performance.nearest_miss(miss, request), style="yellow")


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
    """The winner with its figures and their parts."""
    yield Text(f"Winner: {winner.strategy.label}", style="bold green")
    yield Text(performance.speed(winner))
    yield Text(f"{performance.memory(winner, request)}, of {format_bytes(request.budget_bytes)}")
    yield from bases(winner)
    yield from parts(winner)


def _rejections(result: SearchResult) -> Table:
    table = titled("Rejected, by the first rule that each breaks")
    table.add_column("rule", no_wrap=True, style="dim")
    table.add_column("strategies", justify="right", no_wrap=True)
    table.add_column("for example")
    for row in rejections(result.counts.rejected, result.reasons):
        table.add_row(*row)
    return table
