"""Toy's own parser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lcplan_checker import answer


def check(request: dict[str, Any]) -> dict[str, Any]:
    """The mesh as Toy reads it."""
    return {"mesh": json.loads(Path(request["file"]).read_text())["mesh"], "layers": request["layers"]}


def keys() -> Iterator[str]:
    """The keys of the file."""
    yield from ("mesh", "checkpointing")


if __name__ == "__main__":
    answer(check, "toy-trainer", keys=keys)
