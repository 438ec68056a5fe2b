"""The table of candidates, and the parts of one candidate as bars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from planner.candidates.candidate import Candidate
from planner.report.terminal.tables import titled
from planner.report.view.candidates import CandidateRow, CandidateTable
from planner.report.view.performance import Share, memory_shares, time_shares

BAR_WIDTH = 30
_OUTCOMES = {"fits": "", "over": "over", "failed": "failed"}


def candidate_table(candidates: Sequence[Candidate], title: str) -> Table:
    """One line for each candidate, best first."""
    shown = CandidateTable.of(candidates)
    table = titled(title, header_style="dim")
    table.padding = (0, 1, 0, 0)
    table.add_column("#", justify="right", no_wrap=True)
    for name in ("mesh", *shown.knobs):
        table.add_column(name, no_wrap=True)
    for name in ("mb", "step", "tokens/s", "TFLOP/s", "memory"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in shown.rows:
        table.add_row(*_cells(row), style=None if row.fits else "dim")
    return table


def _cells(row: CandidateRow) -> tuple[str, ...]:
    shown = row.performance
    strategy = (str(row.number), row.mesh, *row.knobs, row.microbatches)
    figures = (shown.marked_step, shown.tokens_per_s, shown.tflop_per_s, shown.marked_memory)
    return (*strategy, *figures, _OUTCOMES[row.outcome])


def parts(candidate: Candidate) -> Iterator[RenderableType]:
    """The candidate's modelled memory and step time by part."""
    yield Text("\nMemory by part (modelled)", style="dim")
    yield breakdown(memory_shares(candidate))
    yield Text("Step time by part (modelled)", style="dim")
    yield breakdown(time_shares(candidate))


def breakdown(shares: Sequence[Share]) -> Padding:
    """Parts of a whole as bars, indented."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    for share in shares:
        bar = Text("█" * max(1, round(BAR_WIDTH * share.ratio)), style="cyan")
        table.add_row(share.label, share.amount, f"{share.ratio:.1%}", bar)
    return Padding(table, (0, 0, 0, 2))
