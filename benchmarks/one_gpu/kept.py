"""Kept: rows of every part in one JSON file, written whole after each."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from one_gpu.card import Card

Rows = dict[str, dict[str, dict[str, Any]]]
"""By part, then by id."""


@dataclass(frozen=True)
class Kept:
    """Where rows of one card are kept."""

    path: Path
    card: Card
    rows: Rows
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def open(cls, path: Path, card: Card) -> Kept:
        """Rows of an earlier command on such a card; none where there is no file.

        Raises
        ------
        SystemExit
            The file is another card's.
        """
        if not path.exists():
            return cls(path, card, {})
        old = cls.read(path)
        if old.card != card:
            raise SystemExit(f"{path} holds rows of {old.card.device} with jax {old.card.jax}; choose another file with --data")
        return cls(path, card, old.rows)

    @classmethod
    def read(cls, path: Path) -> Kept:
        """What was kept."""
        data = json.loads(path.read_text())
        return cls(path, Card(**data["card"]), {part: {row["id"]: row for row in rows} for part, rows in data["rows"].items()})

    def has(self, part: str, row_id: str) -> bool:
        """Whether the row is there and did not fail."""
        row = self.rows.get(part, {}).get(row_id)
        return row is not None and "error" not in row

    def put(self, part: str, row: dict[str, Any]) -> None:
        """Keep a row at once."""
        with self.lock:
            self.rows.setdefault(part, {})[row["id"]] = row
            lists = {name: list(rows.values()) for name, rows in self.rows.items()}
            self.path.parent.mkdir(parents=True, exist_ok=True)
            part_file = self.path.with_suffix(".part")
            part_file.write_text(json.dumps({"card": self.card.to_json(), "rows": lists}, indent=1) + "\n")
            part_file.replace(self.path)
