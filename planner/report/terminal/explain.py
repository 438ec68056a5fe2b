"""The output of ``lcplan explain``: one strategy in full, or two side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from cost_models.parts.find import memory_label, time_label
from lcplan.formats.units import format_bytes, format_seconds
from planner.explain.explanation import Comparison, Explanation
from planner.explain.why import Difference, Verdict
from planner.report.terminal.candidates import breakdown
from planner.report.terminal.estimate import speed, verdict
from planner.report.terminal.headline import headline
from planner.report.terminal.tables import FittedTable, plain, titled
from planner.report.view.explanation import bases, moved, others, waited
from planner.report.view.marks import LEGEND
from planner.report.view.performance import memory_shares, time_shares

SHOWN_OTHERS = 8
SHOWN_TRANSFERS = 10
_REASONS = {
    "won": "wins",
    "failed": "failed",
    "rule": "is against a rule",
    "memory": "does not fit",
    "time": "is slower",
    "tie": "ties",
}


def explanation_view(found: Explanation) -> Group:
    """The whole explanation."""
    return Group(*_sections(found))


def _sections(found: Explanation) -> Iterator[RenderableType]:
    yield headline(found.run.request)
    yield Text(f"\n{found.candidate.strategy.label}", style="bold")
    yield from _verdict(found.verdict)
    if found.verdict.reason == "rule":
        return
    yield verdict(found.candidate, found.run.request)
    yield speed(found.candidate)
    yield Text(found.cost.says)
    for line in found.trouble:
        yield Text(f"warning: {line}", style="yellow")
    yield from _where(found)
    yield from _communication(found)
    yield from _basis(found)
    if found.others:
        yield Text()
        yield _others(found)
    if found.shifts:
        yield Text()
        yield _shifts(found)
    yield Text(LEGEND, style="dim")


def _verdict(found: Verdict) -> Iterator[Text]:
    slower = f", {found.slower_ratio:+.1%} against the winner" if found.slower_ratio else ""
    yield Text(f"{_REASONS[found.reason]}{slower}", style="green" if found.reason == "won" else "yellow")
    for line in found.says:
        yield Text(f"  {line}", style="yellow")
    for way in found.ways:
        yield Text(f"  would fit with {way}")
    for even in found.break_evens:
        yield Text(f"  would win with {even.says}")


def _where(found: Explanation) -> Iterator[RenderableType]:
    phase = found.candidate.estimate["memory_phase"].replace("_", " ")
    yield Text(f"\nWhere the bytes go (modelled, at {phase})", style="bold")
    yield breakdown(memory_shares(found.candidate))
    yield Text("Where the seconds go (modelled)", style="bold")
    yield breakdown(time_shares(found.candidate))
    yield from _learnt(found)


def _learnt(found: Explanation) -> Iterator[RenderableType]:
    """Compare the modelled seconds with the evidence, where there is any."""
    learnt = found.candidate.learnt
    if learnt is None:
        return
    yield Text(f"Learnt: communication as compiled x{learnt.communication_as_compiled:.3f}", style="bold")
    if learnt.timings:
        scales = f"computation x{learnt.computation_scale:.3f}, communication x{learnt.communication_scale:.3f}"
        yield Text(f"  by timings of {learnt.timings} candidates: {scales}")
    yield Text(f"  the modelled step becomes {format_seconds(learnt.step_s(found.candidate.estimate))}")


def _communication(found: Explanation) -> Iterator[RenderableType]:
    if not found.transfers:
        return
    yield Text("Communication: the bytes that move, and the time that the step waits", style="bold")
    table = plain("part", figures=("transfer", "hidden", "exposed"))
    for one in waited(found):
        table.add_row(*one)
    yield Padding(table, (0, 0, 0, 2))
    yield Padding(_inventory(found), (0, 0, 0, 2))
    if found.backend_needs:
        yield Text(f"  {found.candidate.strategy.backend}: {found.backend_needs}")


def _inventory(found: Explanation) -> FittedTable:
    compiled = any(line.compiled_bytes is not None for line in found.inventory)
    table = plain("collective", figures=("bytes per step ~", "calls ~", *(("bytes per step c", "calls c") if compiled else ())))
    table.add_column("" if compiled else "over", no_wrap=True)
    links = {(transfer.op, transfer.axis): transfer.link for transfer in found.transfers}
    for line in found.inventory[:SHOWN_TRANSFERS]:
        cells = [f"{line.op} {line.axis}", format_bytes(line.modelled_bytes), f"{line.modelled_calls:,}"]
        if compiled:
            cells += [format_bytes(line.compiled_bytes or 0), f"{line.compiled_calls or 0:,}"]
        end = f"{line.verdict} {' '.join(line.backends)}" if compiled else links.get((line.op, line.axis), "")
        table.add_row(*cells, Text(end, style="yellow" if line.verdict in {"unexpected", "not found"} else "dim"))
    return table


def _basis(found: Explanation) -> Iterator[RenderableType]:
    yield Text(f"Basis: {found.measured_share:.0%} of the step on rates measured on this kind of device", style="bold")
    table = plain("part", figures=("seconds",))
    table.add_column("basis")
    for one in bases(found):
        if one.kind == "fallback":
            table.add_row(one.part, one.seconds, one.lacking)
    if table.row_count:
        yield Padding(table, (0, 0, 0, 2))


def _others(found: Explanation) -> FittedTable:
    table = titled("Why not another")
    table.add_column("strategy", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("why")
    for other in others(found)[:SHOWN_OTHERS]:
        table.add_row(other.short, other.against, other.why)
    return table


def _shifts(found: Explanation) -> FittedTable:
    table = titled("Changes that would alter the choice (modelled)")
    for name in ("if", "is"):
        table.add_column(name, no_wrap=True)
    table.add_column("then best")
    for shift in moved(found):
        rate = f"{shift.tokens_per_s} tokens/s"
        if not shift.strategy:
            best = Text("nothing fits", style="red")
        else:
            best = Text(f"the same, {rate}", style="dim") if shift.same else Text(f"{shift.strategy}, {rate}")
        table.add_row(shift.quantity, shift.value, best)
    return table


def comparison_view(found: Comparison) -> Group:
    """Two strategies term by term."""
    return Group(*_compared(found))


def _compared(found: Comparison) -> Iterator[RenderableType]:
    yield headline(found.run.request)
    for number, one in ((1, found.first), (2, found.second)):
        yield Text(f"\n{number}: {one.candidate.strategy.label}", style="bold")
        yield from _verdict(one.verdict)
        if one.verdict.reason != "rule":
            yield verdict(one.candidate, found.run.request)
    yield Text("\nMemory by part (modelled)", style="bold")
    yield Padding(_differences(found.memory, memory_label, show=format_bytes), (0, 0, 0, 2))
    yield Text("Step time by part (modelled)", style="bold")
    yield Padding(_differences(found.time, time_label, show=format_seconds), (0, 0, 0, 2))
    yield Text(LEGEND, style="dim")


def _differences(terms: tuple[Difference, ...], label: Callable[[str], str], *, show: Callable[[float], str]) -> FittedTable:
    table = plain("part", figures=("1", "2", "2 less 1"))
    whole = sum(abs(term.more) for term in terms) or 1.0
    table.add_column("", no_wrap=True)
    for term in terms:
        bar = Text("█" * round(20 * abs(term.more) / whole), style="red" if term.more > 0 else "green")
        sign = "+" if term.more > 0 else "-" if term.more < 0 else ""
        table.add_row(label(term.term), show(term.first), show(term.second), f"{sign}{show(abs(term.more))}", bar)
    total = Difference("total", sum(term.first for term in terms), sum(term.second for term in terms))
    sign = "+" if total.more > 0 else "-"
    table.add_row("total", show(total.first), show(total.second), f"{sign}{show(abs(total.more))}", "", style="bold")
    return table
