"""The note on hardware that the user named in other words than the catalogue."""

from __future__ import annotations

from typing import Any

import click

from lcplan.formats.errors import BadInputError


def note_words(text: str) -> None:
    """Show on stderr how words such as ``8xh100`` are read. The command refuses words that cannot be read."""
    from lcplan.catalog import read_as

    try:
        note = read_as(text)
    except BadInputError:
        return
    if note:
        click.echo(f"note: {note}", err=True)


def noted(_context: click.Context, _option: click.Parameter, value: Any) -> Any:
    """Show the note on the value of ``--hw``, and return the value."""
    if isinstance(value, str):
        note_words(value)
    return value
