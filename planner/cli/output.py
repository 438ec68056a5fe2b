"""Printing: results to stdout, everything else to stderr; no colours when piped or with NO_COLOR."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType

WIDTH = 100


def stdout_console() -> Console:
    """Tables of at most 100 columns."""
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    return console


def stderr_console() -> Console:
    """Progress and summaries."""
    console = Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 200
    return console


def print_view(view: RenderableType) -> None:
    """A table or text, to stdout."""
    stdout_console().print(view)


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
