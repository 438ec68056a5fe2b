"""Printing: results to stdout, everything else to stderr; no colours when piped or with NO_COLOR."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType

WIDTH = 100
"""Columns of text in a pipe or a file."""


class PipedConsole(Console):
    """A console whose reader may leave: rich would exit with 1, which is the code of "nothing fits"."""

    def on_broken_pipe(self) -> None:
        """Let the command line end quietly."""
        self.quiet = True
        raise BrokenPipeError


def stdout_console() -> Console:
    """A console as wide as the terminal; ``COLUMNS`` overrides it, in a pipe too."""
    console = PipedConsole(file=sys.stdout, highlight=False, markup=False, emoji=False)
    if not console.is_terminal and not os.environ.get("COLUMNS", "").isdigit():
        console.width = WIDTH
    return console


def stderr_console(*, quiet: bool = False) -> Console:
    """Progress and summaries; ``quiet`` prints nothing."""
    console = PipedConsole(file=sys.stderr, highlight=False, markup=False, emoji=False, quiet=quiet)
    if not console.is_terminal:
        console.width = 200
    return console


def print_view(view: RenderableType) -> None:
    """A table or text, to stdout."""
    stdout_console().print(view)


def print_places(lines: Iterable[tuple[str, str]]) -> None:
    """``name: path or command`` lines, to stdout; a path or a command is never broken over lines."""
    for name, text in lines:
        stdout_console().print(f"{name}: {text}", soft_wrap=True)


def print_json(document: Any) -> None:
    """One JSON document, to stdout."""
    sys.stdout.write(json.dumps(document, indent=1, allow_nan=False) + "\n")


def print_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows of equal keys as CSV with a header, to stdout."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    sys.stdout.write(text.getvalue())
