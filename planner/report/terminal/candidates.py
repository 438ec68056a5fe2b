"""The table of candidates, and the parts of one candidate as bars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from lcplan.formats.units import GIB, MIB
from planner.candidates.candidate import Candidate
from planner.report.terminal.tables import Bar, FittedTable, titled
from planner.report.view.candidates import CandidateTable
from planner.report.view.marks import MARKS
from planner.report.view.performance import Share, by_backend, host_bytes, memory_shares, need_bytes, time_shares

BAR_WIDTH = 30
_ORDER = ("tokens/s", "backend", "matmul", "mb", "host", "scheme", "cache")
LEAVES = {name: place for place, name in enumerate(_ORDER, start=1)}
"""Order in which columns leave on a narrow terminal; mesh, remat, step, memory and headroom stay."""
_OUTCOMES = {"fits": "", "over": "over", "failed": "failed"}


def candidate_table(
    candidates: Sequence[Candidate], title: str, *, budget_bytes: float, reasons: Sequence[str] = ()
) -> FittedTable:
    """One line for each candidate, best first; with ``reasons``, a last column with the reason for which each is shown.

    The largest half-width is in the heading, unless only some figures have one.
    """
    shown = CandidateTable.of(candidates, budget_bytes)
    table = titled(title, header_style="dim")
    table.gap = 1
    table.add_column("#", justify="right", no_wrap=True)
    for name in ("mesh", *shown.knobs):
        table.add_column(name, no_wrap=True, leaves=LEAVES.get(name, 0))
    step = _largest([row.performance.step_unsure for row in shown.rows])
    memory = _largest([row.performance.memory_unsure for row in shown.rows])
    unit, name = (GIB, "GiB") if max(one.best.memory_bytes for one in candidates) >= GIB else (MIB, "MiB")
    figures = [f"step {step}", *(() if reasons else ("tokens/s",)), f"{name} {memory}", "free", *(("host",) * shown.offloads)]
    for heading in ("mb", *figures):
        table.add_column(heading.strip(), justify="right", no_wrap=True, leaves=LEAVES.get(heading, 0))
    table.add_column("best" if reasons else "", no_wrap=not reasons)
    for row, one, last in zip(shown.rows, candidates, reasons or [_OUTCOMES[row.outcome] for row in shown.rows], strict=True):
        performance = row.performance
        seconds = performance.marked_step if not step else f"{performance.step} {MARKS[performance.step_rung]}"
        amount = f"{one.best.memory_bytes / unit:.1f}{'' if memory else ' ' + performance.memory_unsure}".strip()
        sizes = (f"{amount} {MARKS[performance.memory_rung]}", f"{(budget_bytes - need_bytes(one)) / unit:.1f}")
        away = (f"{host_bytes(one) / unit:.1f}" if host_bytes(one) else "-",) * shown.offloads
        speed = () if reasons else (performance.tokens_per_s,)
        strategy = (str(row.number), row.mesh, *row.knobs, row.microbatches)
        table.add_row(*strategy, seconds, *speed, *sizes, *away, last, style=None if row.fits else "dim")
    return table


def _largest(values: Sequence[str]) -> str:
    """The largest half-width of the rows; empty where only some have one.

    >>> _largest(["±13%", "±7%", "±13%"]), _largest(["±5%", ""])
    ('±13%', '')
    """
    return max(values, key=lambda value: int(value.strip("±%"))) if all(values) else ""


def backend_lines(candidates: Sequence[Candidate]) -> Iterator[Text]:
    """The step time of each backend of the plans that have several, one line for each plan."""
    for number, candidate in enumerate(candidates, start=1):
        if words := by_backend(candidate):
            yield Text(f"{number} by backend: {words}", style="dim")


def parts(candidate: Candidate) -> Iterator[RenderableType]:
    """The candidate's modelled memory and step time by part."""
    yield Text("\nMemory by part (modelled)", style="dim")
    yield breakdown(memory_shares(candidate))
    yield Text("Step time by part (modelled)", style="dim")
    yield breakdown(time_shares(candidate))


def breakdown(shares: Sequence[Share]) -> Padding:
    """Parts of a whole as bars, indented."""
    table = FittedTable(headings=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for share in shares:
        table.add_row(share.label, share.amount, f"{share.ratio:.1%}", Bar(share.ratio, BAR_WIDTH))
    return Padding(table, (0, 0, 0, 2))
