"""Tables without lines, in which every answer is laid out."""

from __future__ import annotations

from rich.table import Table


def plain(*names: str, figures: tuple[str, ...] = ()) -> Table:
    """A table with ``names`` on the left and ``figures`` aligned to the right; no cell breaks over lines."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in names:
        table.add_column(name, no_wrap=True)
    for name in figures:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def titled(title: str, *, header_style: str = "") -> Table:
    """A table without columns yet, under a bold title."""
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        header_style=header_style or "table.header",
    )
