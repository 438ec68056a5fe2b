"""Tables without lines, in which every answer is laid out; they fit the terminal that they are printed on.

Where a terminal is too narrow, columns leave in the order that their tables state, and a line below the table names them.
A figure keeps its unit and its mark: no cell is cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

LEAST_FOLDED = 16
"""Characters that a column of sentences keeps at least, before others leave."""
LEAST_BAR = 4


@dataclass(frozen=True)
class Bar:
    """A part of a whole as a bar of at most ``longest`` characters, shorter on a narrow terminal."""

    ratio: float
    longest: int
    style: str = "cyan"

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Return one character, and the whole length."""
        return Measurement(1, min(self.longest, options.max_width))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the bar; any part above zero has one character."""
        length = round(min(self.longest, options.max_width) * self.ratio)
        yield Text("█" * (max(1, length) if self.ratio > 0 else 0), style=self.style)


@dataclass
class Column:
    """One column. ``leaves``: its place in the order of leaving, from 1; 0 stays. ``no_wrap``: no cell breaks over lines."""

    heading: str
    justify: JustifyMethod
    style: str
    no_wrap: bool
    leaves: int
    cells: list[RenderableType] = field(default_factory=list)

    @property
    def width(self) -> int:
        """The width without a break."""
        return max(map(_width, (self.heading, *self.cells)))

    @property
    def least(self) -> int:
        """The width that the column needs."""
        bars = any(isinstance(cell, Bar) for cell in self.cells)
        return self.width if self.no_wrap else min(self.width, LEAST_BAR if bars else LEAST_FOLDED)


class FittedTable:
    """A table that leaves out columns that do not fit the terminal.

    ``gap`` is the space between columns. ``blocks``: nothing leaves; the columns after the first go below each other instead,
    with the first before each block.
    """

    def __init__(
        self, title: str = "", *, header_style: str = "dim", headings: bool = True, gap: int = 2, blocks: bool = False
    ) -> None:
        self._title, self._header_style, self._headings = title, header_style, headings
        self._blocks, self.gap = blocks, gap
        self.columns: list[Column] = []
        self._styles: list[str | None] = []
        self.caption = ""

    @property
    def row_count(self) -> int:
        """Lines below the headings."""
        return len(self._styles)

    def add_column(
        self, heading: str = "", *, justify: JustifyMethod = "left", style: str = "", no_wrap: bool = False, leaves: int = 0
    ) -> None:
        """Add a column to the right."""
        self.columns.append(Column(heading, justify, style, no_wrap, leaves))

    def add_row(self, *cells: RenderableType, style: str | None = None) -> None:
        """Add a line; missing cells at its end are empty."""
        for column, cell in zip(self.columns, (*cells, *[""] * (len(self.columns) - len(cells))), strict=True):
            column.cells.append(cell)
        self._styles.append(style)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table as it fits, and a line with the columns that left."""
        width = options.max_width
        if self._blocks:
            for number, block in enumerate(self._in_blocks(width)):
                yield from [Text()] * (number > 0)
                yield self._table(block, width, title=self._title if number == 0 else "")
            return
        shown, left = self._fitting(width)
        yield self._table(shown, width, title=self._title)
        if self.caption:
            yield Text(self.caption, style="dim italic")
        if left:
            names = ", ".join(column.heading.split()[0] for column in left)
            yield Text(f"left out at {width} columns: {names}", style="dim")

    def _fitting(self, width: int) -> tuple[list[Column], list[Column]]:
        """Return the columns that stay, and the columns with a heading that leave."""
        shown, left = list(self.columns), []
        for column in sorted((one for one in self.columns if one.leaves), key=lambda one: one.leaves):
            if self._least(shown) <= width:
                break
            shown.remove(column)
            left.append(column)
        return shown, [column for column in left if column.heading.strip()]

    def _in_blocks(self, width: int) -> Iterator[list[Column]]:
        first, *rest = self.columns
        while rest:
            fitting = [count for count in range(1, len(rest) + 1) if self._least([first, *rest[:count]]) <= width]
            count = max(fitting, default=1)
            yield [first, *rest[:count]]
            rest = rest[count:]

    def _least(self, columns: Sequence[Column]) -> int:
        return sum(column.least for column in columns) + self.gap * (len(columns) - 1)

    def _table(self, columns: Sequence[Column], width: int, *, title: str) -> Table:
        """Lay the columns out; if even these do not fit, words break over lines."""
        table = Table(
            title=title or None,
            title_justify="left",
            title_style="bold",
            box=None,
            pad_edge=False,
            header_style=self._header_style,
            show_header=self._headings,
            padding=(0, self.gap, 0, 0),
        )
        narrow = self._least(columns) > width
        for column in columns:
            no_wrap = column.no_wrap and not (narrow and column.justify == "left")
            table.add_column(column.heading, justify=column.justify, style=column.style, no_wrap=no_wrap, overflow="fold")
        for cells, style in zip(zip(*(column.cells for column in columns), strict=True), self._styles, strict=True):
            table.add_row(*cells, style=style)
        return table


def _width(cell: RenderableType) -> int:
    if isinstance(cell, Bar):
        return cell.longest
    text = cell.plain if isinstance(cell, Text) else cell if isinstance(cell, str) else ""
    return max(map(cell_len, text.splitlines()), default=0)


def plain(*names: str, figures: tuple[str, ...] = (), leaves: Sequence[str] = ()) -> FittedTable:
    """A table with ``names`` on the left and ``figures`` aligned to the right; the names in ``leaves`` leave in that order."""
    table = FittedTable()
    order = {name: place for place, name in enumerate(leaves, start=1)}
    for name in names:
        table.add_column(name, no_wrap=True, leaves=order.get(name, 0))
    for name in figures:
        table.add_column(name, justify="right", no_wrap=True, leaves=order.get(name, 0))
    return table


def titled(title: str, *, header_style: str = "bold") -> FittedTable:
    """A table without columns yet, under a bold title."""
    return FittedTable(title, header_style=header_style)
