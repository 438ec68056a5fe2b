"""The output of ``lcplan compare``: one row for each cluster, and the best by each measure."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from planner.report.terminal.headline import headline
from planner.report.terminal.tables import FittedTable
from planner.report.view.clusters import HEADINGS, LEGEND, best_lines, cluster_rows
from planner.report.view.marks import LEGEND as MARKS
from planner.run.clusters import Comparison


def clusters_view(comparison: Comparison) -> Group:
    """The whole answer."""
    return Group(*_sections(comparison))


def _sections(comparison: Comparison) -> Iterator[RenderableType]:
    yield headline(comparison.clusters[0].request)
    yield Text()
    yield _table(comparison)
    yield Text(LEGEND, style="dim")
    yield Text(MARKS, style="dim")
    for line in best_lines(comparison):
        yield Text(line, style="bold green")
    for cluster in comparison.clusters:
        if cluster.note:
            yield Text(f"{cluster.name}: {cluster.note}", style="yellow")
    for note in comparison.notes:
        yield Text(f"note: {note}", style="yellow")


def _table(comparison: Comparison) -> FittedTable:
    """Clusters are columns, below each other on a narrow terminal: a row of thirteen figures is wider than a terminal."""
    table = FittedTable(header_style="bold", blocks=True)
    rows = cluster_rows(comparison)
    table.add_column("", no_wrap=True, style="dim")
    for row in rows:
        table.add_column(row.cluster, no_wrap=True, justify="right")
    for place, heading in enumerate(HEADINGS[1:], start=1):
        table.add_row(heading, *(row[place] for row in rows))
    return table
