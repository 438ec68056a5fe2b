"""The tables that come with lcplan, by name, and a user's own by path."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from pathlib import Path

from lcplan.catalog.path_like import is_path
from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import hint
from planner.validate.sources.read import read_table
from planner.validate.sources.table import PublishedTable

_SUFFIXES = (".yaml", ".json")


@lru_cache(maxsize=1)
def _files() -> dict[str, Path]:
    folder = resources.files("cost_models") / "tables"
    paths = [Path(str(entry)) for entry in folder.iterdir()]
    return {path.stem: path for path in sorted(paths) if path.suffix in _SUFFIXES}


def table_names() -> tuple[str, ...]:
    """Every bundled table."""
    return tuple(_files())


def find_table(name_or_path: str) -> tuple[PublishedTable, Path]:
    """A bundled table by its name or a file's, with its path (a row's config.json is relative to it).

    Raises
    ------
    BadInputError
        Unknown name (with near names), or a file that is no table.
    """
    text = name_or_path.strip()
    if text in _files():
        path = _files()[text]
    elif is_path(text):
        path = Path(text)
    else:
        raise BadInputError(f"unknown table {text!r:.80}{hint(text, table_names())} The path of a table's file works too")
    return read_table(path), path
