"""The output of ``lcplan search``: the answer, the candidates and alternatives, the rejections, and the answer in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from lcplan.formats.units import format_bytes, format_seconds
from lcplan.strategy import letters
from planner.candidates.candidate import Candidate
from planner.report.terminal.candidates import backend_lines, candidate_table, parts
from planner.report.terminal.estimate import bases
from planner.report.terminal.headline import headline
from planner.report.terminal.tables import FittedTable, titled
from planner.report.terminal.tuning import tuning_view
from planner.report.view import performance
from planner.report.view.alternatives import tradeoffs
from planner.report.view.marks import LEGEND
from planner.report.view.rejections import rejections
from planner.request.request import SearchRequest
from planner.run.result import SearchResult

SHOWN = 10


def search_view(result: SearchResult, *, verbose: bool = False) -> Group:
    """The answer, how it was found, and the answer with its figures again; ``verbose``: with every rule that rejects.

    Without an answer the rules are always there.
    """
    return Group(*_sections(result, verbose=verbose))


def answer_view(result: SearchResult) -> Group:
    """The answer without the tables."""
    return Group(*_answer(result))


def _sections(result: SearchResult, *, verbose: bool) -> Iterator[RenderableType]:
    winner = result.winner
    if result.device_use:
        yield Text(result.device_use.says, style="bold yellow")
    yield headline(result.request)
    yield Text()
    if winner is not None:
        yield Text(performance.short(winner, result.request), style="bold green")
        yield Text()
    rejected = bool(result.reasons) and (verbose or winner is None)
    yield _funnel(result, more=bool(result.reasons) and not rejected)
    yield Text()
    if result.candidates:
        yield from _candidates(result)
    if winner is not None:
        yield from parts(winner)
    if result.tuning:
        yield Text()
        yield tuning_view(result.tuning)
    if rejected:
        yield Text()
        yield _rejections(result)
    for note in result.notes:
        yield Text(f"note: {note}", style="yellow")
    yield Text()
    yield from _answer(result)


def _answer(result: SearchResult) -> Iterator[RenderableType]:
    winner = result.winner
    if winner is not None:
        yield from winner_view(winner, result.request, tie=tuple(_tie(result)))
        return
    yield _nothing(result)
    for change in result.changes:
        yield Text(f"  would fit: {change.says} (step {format_seconds(change.step_s)})")


def _candidates(result: SearchResult) -> Iterator[RenderableType]:
    title = "Best candidates" if result.winner else "Candidates; no candidate fits"
    shown = result.candidates[:SHOWN]
    yield candidate_table(shown, title, budget_bytes=result.request.budget_bytes)
    yield from backend_lines(shown)
    axes = letters(*result.request.optional_axes)
    yield Text(f"mesh: devices: {axes}", style="dim")
    host = ";  host: its memory with offloaded tensors" if any(map(performance.host_bytes, shown)) else ""
    yield Text(f"mb microbatches;  free: budget less memory and allowance, in GiB{host}", style="dim")
    yield Text(LEGEND, style="dim")
    yield from _alternatives(result)
    yield from _trouble(shown)


def _alternatives(result: SearchResult) -> Iterator[RenderableType]:
    """Modelled plans that show the choice and are not among the candidates."""
    known = {candidate.strategy for candidate in result.candidates[:SHOWN]}
    found = tradeoffs(result.alternatives, without=known)
    if found:
        yield Text()
        plans, reasons = zip(*found, strict=True)
        yield candidate_table(plans, "Alternatives (modelled)", budget_bytes=result.request.budget_bytes, reasons=reasons)


def _tie(result: SearchResult) -> Iterator[Text]:
    """Name the ties with the winner, and the reason for which it is preferred."""
    if result.winner is not None and result.ties:
        yield Text(performance.tie(result.winner, result.ties), style="yellow")


def _nothing(result: SearchResult) -> RenderableType:
    """Explain why there is no winner: show the nearest miss, or note that there was nothing to price."""
    if result.nearest_miss:
        return _nearest_miss(result.nearest_miss, result.request)
    failed = [candidate for candidate in result.candidates if not candidate.usable]
    if failed:
        return Text(f"No strategy was measured: all {len(failed)} compiles or timings failed, as listed above", style="yellow")
    if result.counts.enumerated:
        return Text("Nothing to price: every strategy breaks a rule", style="yellow")
    return Text("Nothing to price: no mesh of this many devices has the sizes that --mesh asks for", style="yellow")


def _nearest_miss(miss: Candidate, request: SearchRequest) -> Text:
    return Text(performance.nearest_miss(miss, request), style="yellow")


def _funnel(result: SearchResult, *, more: bool) -> Text:
    counts = result.counts
    rejected = sum(counts.rejected.values())
    return Text(
        f"{counts.enumerated:,} strategies: {rejected:,} rejected by rules, {counts.estimated:,} priced, "
        f"{counts.over_budget:,} over budget, {counts.survivors} survivors{'; -v shows the rules' * more}"
    )


def _trouble(candidates: Sequence[Candidate]) -> Iterator[Text]:
    """Failed compiles, and each warning once, with the number of compiles that have it where there are several."""
    warned: dict[str, list[str]] = {}
    for candidate in candidates:
        compiled, label = candidate.compiled, candidate.strategy.label
        if compiled is not None and compiled.error:
            yield Text(f"failed: {label}: {compiled.error}", style="red")
        for warning in compiled.warnings if compiled is not None else ():
            warned.setdefault(warning, []).append(label)
    for warning, labels in warned.items():
        where = labels[0] if len(labels) == 1 else f"{len(labels)} compiles"
        yield Text(f"warning: {where}: {warning}", style="yellow")


def winner_view(winner: Candidate, request: SearchRequest, *, tie: tuple[Text, ...] = ()) -> Iterator[RenderableType]:
    """The winner with its ties, its figures and their bases."""
    yield Text(f"Winner: {winner.strategy.label}", style="bold green")
    yield from tie
    yield Text(performance.speed(winner))
    free = performance.headroom(winner, request.budget_bytes)
    yield Text(f"{performance.memory(winner, request)}, of {format_bytes(request.budget_bytes)}: {free} free")
    if words := performance.host(winner, request.hardware):
        yield Text(words)
    yield from bases(winner)


def _rejections(result: SearchResult) -> FittedTable:
    table = titled("Rejected, by the first rule that each breaks")
    table.add_column("rule", no_wrap=True, style="dim")
    table.add_column("strategies", justify="right", no_wrap=True)
    table.add_column("for example")
    for row in rejections(result.counts.rejected, result.reasons):
        table.add_row(*row)
    return table
