"""Reading a table's file: defaults merged under every row, every problem of the file at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lcplan.catalog.user_specs import merge
from lcplan.formats.errors import BadInputError
from lcplan.formats.frozen import Frozen
from lcplan.formats.textfile import read_json, read_yaml
from lcplan.strategy.remat import of_stored
from planner.validate.sources.table import Pair, PublishedTable, Row


class _Frame(Frozen):
    """The fields that are read before the rows are checked."""

    defaults: dict[str, Any] = {}
    rows: tuple[dict[str, Any], ...]
    pairs: tuple[tuple[str, str] | Pair, ...] = ()


def read_table(path: str | Path) -> PublishedTable:
    """The table of a YAML or JSON file.

    Raises
    ------
    BadInputError
        Unreadable, unknown or missing keys, wrong values, two rows of one id, a pair of rows that are not there.
    """
    file = Path(path)
    if file.suffix.lower() in {".csv", ".tsv"}:
        raise BadInputError(f"{path}: a table is YAML or JSON (docs/tables.md), not comma-separated; write each line as a row")
    data = read_json(file) if file.suffix.lower() == ".json" else read_yaml(file)
    return table_of(data, str(path))


def table_of(data: Any, where: str) -> PublishedTable:
    """The table of a file's plain values; ``where`` begins each message.

    Raises
    ------
    BadInputError
        As ``read_table``.
    """
    if not isinstance(data, dict):
        raise BadInputError(f"{where}: not a table: a mapping with schema_version, name, source and rows was expected")
    data = _current(data)
    framed = {key: data[key] for key in ("defaults", "rows", "pairs") if key in data}
    frame = _Frame.read(_without_nulls(framed), where)
    rows = _rows(frame, where)
    pairs = [pair if isinstance(pair, Pair) else Pair(a=pair[0], b=pair[1]) for pair in frame.pairs]
    _check_pairs(pairs, {row.id for row in rows}, where=where)
    head = {key: value for key, value in data.items() if key not in {"defaults", "rows", "pairs"} and value is not None}
    table = PublishedTable.read(head | {"rows": []}, where)
    return table.model_copy(update={"rows": tuple(rows), "pairs": tuple(pairs)})


def _current(data: dict[str, Any]) -> dict[str, Any]:
    """The values of a table of schema_version 1 under the names of today: its ``minimal`` was lcplan's own, not MaxText's."""
    if data.get("schema_version") != 1:
        return data
    rows, defaults = data.get("rows"), data.get("defaults")
    translated = {"rows": [_translated(row) for row in rows]} if isinstance(rows, list) else {}
    return data | translated | ({"defaults": _translated(defaults)} if isinstance(defaults, dict) else {})


def _translated(row: Any) -> Any:
    strategy = row.get("strategy") if isinstance(row, dict) else None
    return row | {"strategy": of_stored(strategy)} if isinstance(strategy, dict) else row


def _without_nulls(framed: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in framed.items() if value is not None}


def _rows(frame: _Frame, where: str) -> list[Row]:
    rows: list[Row] = []
    problems: list[str] = []
    seen: set[str] = set()
    for number, row in enumerate(frame.rows):
        name = str(row.get("id", f"number {number}"))
        try:
            rows.append(Row.read(_stated(merge(frame.defaults, row)), f"{where}: row {name}"))
        except BadInputError as error:
            problems.extend(error.problems)
        if name in seen:
            problems.append(f"{where}: row {name} is given twice; give every row an id of its own")
        seen.add(name)
    if problems:
        raise BadInputError(problems)
    return rows


def _stated(row: dict[str, Any]) -> dict[str, Any]:
    """The row without the parts that are null as a whole."""
    return {key: value for key, value in row.items() if value is not None}


def _check_pairs(pairs: list[Pair], ids: set[str], *, where: str) -> None:
    missing = [
        f"{where}: pair {pair.a}, {pair.b}: no row {name!r}" for pair in pairs for name in (pair.a, pair.b) if name not in ids
    ]
    if missing:
        raise BadInputError(missing)
