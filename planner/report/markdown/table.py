"""A Markdown table from headings and rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[int] = ()) -> Iterator[str]:
    """Lines of the table with an empty one at its end; columns whose indices are in ``right`` hold figures."""
    yield _line(headings)
    yield f"|{'|'.join('---:' if index in right else '---' for index in range(len(headings)))}|"
    yield from map(_line, rows)
    yield ""


def _line(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"
